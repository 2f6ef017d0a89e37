// ReferenceBackend: every kernel as the plain loops of its definition, scalar and row-major; the
// oracle of tests, and slow. Immutable; any thread may call it inside a region.
#pragma once

#include "lorica/kernels/backend.h"
#include "lorica/kernels/open_backend.h"

namespace lorica::kernels {

// Rank tiles of 8 in f32: A [8, K], then B [N, 8].
class ReferenceTilePacker : public lora::TilePacker {
 public:
  int32_t rank_quantum() const override { return 8; }
  int64_t TileBytes(const lora::TileShape& shape) const override;
  void PackTile(const lora::SiteFactors& factors, int32_t rank_begin,
                std::byte* tile) const override;
};

class ReferenceBackend : public Backend {
 public:
  explicit ReferenceBackend(Sums sums) : sums_(sums) {}

  std::string_view name() const override { return "reference"; }
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
  Sums sums_;
  ReferenceTilePacker packer_;
};

}  // namespace lorica::kernels
