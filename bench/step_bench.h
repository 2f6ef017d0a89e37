// The step benchmark: a model decodes for many sequences, on the base alone and on as many
// adapters, in turn, so that the ratio is of one run; and it computes prompts.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/bench_model.h"

namespace lorica::bench {

struct StepBenchOptions {
  BenchModelOptions model;
  int threads = 0;                        // 0: every core
  std::vector<int32_t> sequences = {20};  // that decode together; a table of each
  int32_t context = 256;                  // prompt tokens of each sequence
  int32_t steps = 16;                     // decode steps timed in each turn
  int32_t turns = 3;
  int32_t prefill = 0;     // tokens of a prompt that is computed instead; 0: decode steps
  bool breakdown = false;  // where a step's time goes
  // Of the adapters, in turn: all seven linears of every layer.
  std::vector<int32_t> ranks = {8, 16, 32};
  // A curve instead: distinct, rank, batch, context, loaded or threads.
  std::string scaling;
  std::string csv;  // a file for the figures
};

// Prints the table to `out`; the exit status.
int RunStepBench(const StepBenchOptions& options, std::FILE* out);

}  // namespace lorica::bench
