// StepWorld: an engine on a benchmark's model, with adapters published, whose steps are timed; and
// what a step reads and multiplies at least. Single-threaded use; the model outlives it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/bench_model.h"
#include "bench/floor.h"
#include "bench/step_breakdown.h"
#include "bench/timing.h"
#include "lorica/base/machine_context.h"
#include "lorica/engine/engine.h"

namespace lorica::bench {

class StepWorld {
 public:
  struct Options {
    int threads = 0;         // 0: every core
    int32_t sequences = 1;   // most that decode together
    int32_t positions = 16;  // most of each
    std::vector<RandomAdapterSpec> adapters = {};
  };
  static Result<std::unique_ptr<StepWorld>> Make(const BenchModel* model, const Options& options);

  // Sequences that decode together. Sequence i runs on adapter i modulo `adapters`, of those from
  // `first_adapter` on, `stride` apart; none: all on the base model.
  struct Company {
    int32_t sequences = 1;
    int32_t context = 256;  // prompt tokens of each
    int32_t steps = 16;
    int32_t adapters = 0;
    int32_t first_adapter = 0;
    int32_t stride = 1;
  };
  // Seconds of each step, the first left out. Prompts are not computed (assume_prompts.h). A
  // breakdown may be null.
  Result<std::vector<double>> Decode(const Company& company, StepBreakdown* breakdown);
  // Seconds until the first token after a prompt, in one step. On adapter 0 or on the base model.
  enum class PrefillOn { kBase, kAdapter };
  Result<double> Prefill(int32_t tokens, PrefillOn on);

  // Of one step, at least.
  struct Work {
    double bytes = 0.0;
    double flops = 0.0;
  };
  // The middle step of a company. The flops of int8 products are left out: FloorSeconds has the
  // peak of float products alone.
  Work DecodeWork(const Company& company) const;
  Work PrefillWork(int32_t tokens, PrefillOn on) const;
  double KvBytes(const Company& company) const;
  double FloorSeconds(const Work& work) const;
  double AdapterBytes(const Company& company) const;  // in the arena

  std::string Machine() const;           // one line
  void PrintHead(std::FILE* out) const;  // the command and the machine
  void PrintMemory(std::FILE* out) const;
  std::string Rates() const;
  Floor& floor() { return *floor_; }
  const model::Model& model() const { return *base_->model; }
  bool has_flops() const;

 private:
  StepWorld(const BenchModel* model, const Options& options);
  Status Prepare();
  // Step by step until all that was submitted has ended; seconds of each, the trace of it alone.
  template <class Seen>
  Status RunSteps(const Seen& seen);
  Status Submit(int32_t prompt, int32_t tokens, const std::string& adapter);

  const BenchModel* base_;
  const Options options_;
  MachineContext context_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<Floor> floor_;
  std::vector<int64_t> tile_bytes_;  // of each adapter
  int32_t submitted_ = 0;
  Status failed_;
};

}  // namespace lorica::bench
