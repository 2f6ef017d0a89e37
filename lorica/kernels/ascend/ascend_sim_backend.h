// "ascend-sim": a backend whose linear layers, LoRA included, run on the AI Core model: the base
// product and then the fused operator, each one launch a part or a call, checked instruction by
// instruction. For tests and demonstrations: slow, and a finding of the model ends the program with
// its report.
#pragma once

#include <memory>
#include <string>

#include "lorica/kernels/ascend/cube_backend.h"
#include "lorica/kernels/ascend/sim/simulator.h"

namespace lorica::ascend {

class AscendSimBackend : public CubeBackend {
 public:
  struct Options {
    std::string soc = "910B3";    // of arch 2201
    DType compute = DType::kF16;  // x, W, A, B and S on the cube; sums in fp32
    bool timeline = false;        // count modelled cycles
  };
  // What has been run so far.
  struct Counters {
    int64_t base_launches = 0;
    int64_t lora_launches = 0;
    double base_cycles = 0;  // with Options::timeline
    double lora_cycles = 0;
  };

  // NOT_FOUND or INVALID_ARGUMENT with the list of chips for a name that is not in the table.
  static Result<std::unique_ptr<AscendSimBackend>> Open(const Options& options);

  Counters counters() const;

 protected:
  Status RunBase(BaseCall* call) const override;
  Status RunLora(LoraCall* call) const override;

 private:
  AscendSimBackend(const Options& options, std::unique_ptr<Simulator> simulator);

  Options options_;
  // Both under mutex().
  mutable std::unique_ptr<Simulator> simulator_;
  mutable Counters counters_;
};

}  // namespace lorica::ascend
