// "ascend-sim": a backend whose linear layers, LoRA included, run on the AI Core model: the base
// product and then the fused operator, each one launch a part or a call, checked instruction by
// instruction. Everything else is the reference backend's. For tests and demonstrations: slow, and
// a finding of the model ends the program with its report.
//
// Shared by any thread; thread 0 of a region does the work of a linear, one call at a time.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "lorica/kernels/ascend/aligned_vector.h"
#include "lorica/kernels/ascend/sim/simulator.h"
#include "lorica/kernels/ascend/tile_packer.h"
#include "lorica/kernels/reference_backend.h"

namespace lorica::ascend {

class AscendSimBackend : public kernels::ReferenceBackend {
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

  std::string_view name() const override { return name_; }
  Result<kernels::Weight> PackWeight(const kernels::RowSource& source, DType storage,
                                     MachineContext* context) const override;
  void UnpackRow(const kernels::Weight& weight, int64_t n, std::span<float> row) const override;
  const lora::TilePacker& tile_packer() const override { return packer_; }
  lora::PlanLimits plan_limits(int32_t workers) const override;
  void LoraLinear(const kernels::LinearParams& params, const TeamMember& member) const override;

  Counters counters() const;

 private:
  AscendSimBackend(const Options& options, std::unique_ptr<Simulator> simulator);

  uint16_t Encode(float value) const;
  void RunBase(const kernels::LinearParams& params, const kernels::LinearPart& part,
               AlignedVector<uint16_t>* x, AlignedVector<float>* sums) const;
  void RunLora(const kernels::LinearParams& params, AlignedVector<uint16_t>* x,
               std::vector<AlignedVector<float>>* sums) const;

  Options options_;
  std::string name_;
  AscendTilePacker packer_;
  mutable std::mutex mutex_;  // guards the rest
  mutable std::unique_ptr<Simulator> simulator_;
  mutable Counters counters_;
};

}  // namespace lorica::ascend
