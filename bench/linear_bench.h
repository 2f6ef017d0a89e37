// `lorica bench linear`: the base product at several numbers of rows against the machine's floor.
#pragma once

#include <cstdio>

#include "bench/timing.h"

namespace lorica::bench {

// Prints a table; an exit code.
int RunLinearBench(const BenchOptions& options, std::FILE* out);

}  // namespace lorica::bench
