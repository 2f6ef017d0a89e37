// The step benchmark: a model decodes for many sequences, on the base alone and on as many
// adapters, in turn, so that the ratio is of one run.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace lorica::bench {

struct StepBenchOptions {
  int threads = 0;    // 0: every core
  std::string model;  // empty: synthetic, 1.2B parameters
  std::string dtype = "float32";
  std::string weights = "auto";  // as --weights of the program
  int32_t sequences = 20;
  int32_t context = 16;  // prompt tokens of each sequence
  int32_t steps = 16;    // decode steps timed in each turn
  int32_t turns = 3;
  bool breakdown = false;  // where a step's time goes
};

// Prints the table to `out`; the exit status.
int RunStepBench(const StepBenchOptions& options, std::FILE* out);

}  // namespace lorica::bench
