// CubeBackend: what the backends of Ascend chips share: W as fractals, adapters in tiles of 16, a
// linear as base products and one split launch of the operator, the epilogue on the host. How a
// launch runs is the subclass's: on the AI Core model or on a chip. Everything else is the
// reference backend's.
//
// Shared by any thread; thread 0 of a region does the work of a linear, one call at a time.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "lorica/kernels/ascend/aligned_vector.h"
#include "lorica/kernels/ascend/lowering.h"
#include "lorica/kernels/ascend/tile_packer.h"
#include "lorica/kernels/reference_backend.h"

namespace lorica::ascend {

class CubeBackend : public kernels::ReferenceBackend {
 public:
  std::string_view name() const override { return name_; }
  Result<kernels::Weight> PackWeight(const kernels::RowSource& source, DType storage,
                                     MachineContext* context) const override;
  void UnpackRow(const kernels::Weight& weight, int64_t n, std::span<float> row) const override;
  const lora::TilePacker& tile_packer() const override { return packer_; }
  lora::PlanLimits plan_limits(int32_t workers) const override;
  // When a launch fails, y is NaN: the engine ends the requests whose logits are not finite.
  void LoraLinear(const kernels::LinearParams& params, const TeamMember& member) const override;

 protected:
  // y = x * W^T, in fp32: x [rows, padded K], W as PackWeight has it, y [rows, padded N].
  struct BaseCall {
    AlignedVector<uint16_t>* x = nullptr;
    const kernels::Weight* weight = nullptr;
    AlignedVector<float>* y = nullptr;
    AlignedVector<uint32_t> program;  // base_linear.h
    int32_t cores = 0;
  };
  // y of each part += the adapters' products.
  struct LoraCall {
    AlignedVector<uint16_t>* x = nullptr;
    std::vector<AlignedVector<float>>* y = nullptr;
    lora::CallSites sites;
    LoweringInput lowering;  // all but the addresses
  };

  // `compute` is f16 or bf16: x, W, A, B and S on the cube.
  CubeBackend(std::string name, DType compute, int32_t cores);

  virtual Status RunBase(BaseCall* call) const = 0;
  virtual Status RunLora(LoraCall* call) const = 0;

  DType compute() const { return packer_.compute(); }
  const AscendTilePacker& packer() const { return packer_; }
  // Held while a linear runs.
  std::mutex& mutex() const { return mutex_; }

 private:
  uint16_t Encode(float value) const;
  Status Run(const kernels::LinearParams& params, std::vector<AlignedVector<float>>* sums) const;

  std::string name_;
  int32_t cores_;
  AscendTilePacker packer_;
  mutable std::mutex mutex_;
};

}  // namespace lorica::ascend
