// `lorica bench lora`: 32 tokens over 20 adapters of ranks 8 to 64 in one call, against the base
// product alone, against the bytes it must read, and against OpenBLAS pairs when it is installed.
#pragma once

#include <cstdio>

#include "bench/timing.h"

namespace lorica::bench {

// Prints a table; an exit code.
int RunLoraBench(const BenchOptions& options, std::FILE* out);

}  // namespace lorica::bench
