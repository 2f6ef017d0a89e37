// CpuBackend: a Backend over the KernelTable of one instruction set. Immutable; any thread.
#pragma once

#include "lorica/kernels/backend.h"
#include "lorica/kernels/cpu/kernel_table.h"
#include "lorica/kernels/cpu/packing.h"

namespace lorica::kernels::cpu {

class CpuBackend : public Backend {
 public:
  // `kernels` must outlive the backend, and this machine must run it. `tiling` is for tests.
  explicit CpuBackend(const KernelTable* kernels, LinearTiling tiling = {})
      : kernels_(kernels), tiling_(tiling) {}

  std::string_view name() const override { return kernels_->name; }
  Result<Weight> PackWeight(const RowSource& source, DType storage,
                            MachineContext* context) const override;
  void UnpackRow(const Weight& weight, int64_t n, std::span<float> row) const override;
  const lora::TilePacker& tile_packer() const override { return packer_; }
  lora::PlanLimits plan_limits(int32_t workers) const override;
  int64_t PackedInputFloats(int64_t rows, int64_t k) const override;
  int64_t AttentionScratchFloats(const AttentionShape& shape) const override;

  void LoraLinear(const LinearParams& params, const TeamMember& member) const override;
  void RmsNorm(const RmsNormParams& params, const TeamMember& member) const override;
  void Rope(const RopeParams& params, const TeamMember& member) const override;
  void KvWrite(const KvWriteParams& params, const TeamMember& member) const override;
  void Attention(const AttentionParams& params, const TeamMember& member) const override;
  void SwiGlu(const SwiGluParams& params, const TeamMember& member) const override;
  void Embed(const EmbedParams& params, const TeamMember& member) const override;
  void LogitStats(const LogitStatsParams& params, const TeamMember& member) const override;

 private:
  const KernelTable* kernels_;
  LinearTiling tiling_;
  CpuTilePacker packer_;
};

}  // namespace lorica::kernels::cpu
