// How a decode step's time grows: with the distinct adapters of the batch, their rank, the batch,
// the context, the adapters loaded, and the threads.
#pragma once

#include <cstdio>

#include "bench/bench_model.h"
#include "bench/step_bench.h"

namespace lorica::bench {

// The curve options.scaling: prints it, and writes options.csv.
Status RunScaling(const StepBenchOptions& options, const BenchModel& model, std::FILE* out);

}  // namespace lorica::bench
