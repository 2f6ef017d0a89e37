#include "lorica/kernels/cpu/cpu_backend.h"

namespace lorica::kernels::cpu {

Result<Weight> CpuBackend::PackWeight(const RowSource& source, DType storage,
                                      MachineContext* context) const {
  return PackPanels(source, storage, context);
}

void CpuBackend::UnpackRow(const Weight& weight, int64_t n, std::span<float> row) const {
  UnpackWeightRow(weight, n, row);
}

lora::PlanLimits CpuBackend::plan_limits(int32_t workers) const {
  lora::PlanLimits limits;
  limits.workers = workers;
  limits.rank_quantum = static_cast<int32_t>(kTileRanks);
  limits.column_quantum = static_cast<int32_t>(kPanelColumns);
  return limits;
}

int64_t CpuBackend::PackedInputFloats(int64_t rows, int64_t k) const {
  return cpu::PackedInputFloats(rows, k);
}

int64_t CpuBackend::AttentionScratchFloats(const AttentionShape& shape) const {
  return cpu::AttentionScratchFloats(shape);
}

void CpuBackend::LoraLinear(const LinearParams& params, const TeamMember& member) const {
  kernels_->lora_linear(params, tiling_, member);
}
void CpuBackend::RmsNorm(const RmsNormParams& params, const TeamMember& member) const {
  kernels_->rms_norm(params, member);
}
void CpuBackend::Rope(const RopeParams& params, const TeamMember& member) const {
  kernels_->rope(params, member);
}
void CpuBackend::KvWrite(const KvWriteParams& params, const TeamMember& member) const {
  kernels_->kv_write(params, member);
}
void CpuBackend::Attention(const AttentionParams& params, const TeamMember& member) const {
  kernels_->attention(params, member);
}
void CpuBackend::SwiGlu(const SwiGluParams& params, const TeamMember& member) const {
  kernels_->swi_glu(params, member);
}
void CpuBackend::LogitStats(const LogitStatsParams& params, const TeamMember& member) const {
  kernels_->logit_stats(params, member);
}

void CpuBackend::Embed(const EmbedParams& p, const TeamMember& member) const {
  const IndexRange rows = SplitRange(static_cast<int64_t>(p.tokens.size()), member);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    UnpackWeightRow(*p.table, p.tokens[static_cast<size_t>(row)],
                    {p.y + row * p.y_stride, static_cast<size_t>(p.table->k)});
  }
}

}  // namespace lorica::kernels::cpu
