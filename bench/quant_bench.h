// `lorica bench linear --weights`: quantised weights against the machine's best bf16 path, in turn.
#pragma once

#include <cstdio>

#include "bench/timing.h"

namespace lorica::bench {

// Prints a table; an exit code.
int RunQuantBench(const BenchOptions& options, std::FILE* out);

}  // namespace lorica::bench
