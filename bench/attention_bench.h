// The attention benchmark: decode over K and V of each type, one long sequence and many short ones,
// against the time in which their bytes could be read.
#pragma once

#include <cstdio>

#include "bench/timing.h"

namespace lorica::bench {

// Prints the table to `out`; the exit status.
int RunAttentionBench(const BenchOptions& options, std::FILE* out);

}  // namespace lorica::bench
