#include <algorithm>
#include <cstdint>

#include "lorica/kernels/cpu/attention_work.h"
#include "lorica/kernels/cpu/kernel_table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lorica/kernels/cpu/attention.cc"
#include "lorica/kernels/cpu/targets.h"
// Highway needs its target list first.
#include "hwy/foreach_target.h"
#include "lorica/kernels/cpu/attention-inl.h"
#include "lorica/kernels/cpu/kv_write-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::kernels::cpu::HWY_NAMESPACE {

void FillAttention(KernelTable* table) {
  table->attention = &Attention;
  table->kv_write = &KvWrite;
}

}  // namespace lorica::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lorica::kernels::cpu {

int64_t AttentionScratchFloats(const AttentionShape& shape) {
  constexpr int64_t kMostOfAGroup = 8;
  const int64_t padded = (int64_t{shape.head_dim} + 15) / 16 * 16;
  const int64_t own = (2 * kTileQueries + kMostOfAGroup) * padded + kMostOfAGroup * kAttentionBlock;
  if (shape.max_positions == 0) return own;
  // Where the partials of one tile meet.
  const int64_t blocks = (shape.max_positions + kAttentionBlock - 1) / kAttentionBlock;
  const int64_t queries = std::min(kTileQueries, shape.heads / shape.kv_heads);
  return own + blocks * queries * (padded + 16);
}

FillKernels AttentionKernels(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return HWY_CHOOSE_FALLBACK(FillAttention);
    case Isa::kSse4:
      return HWY_CHOOSE_SSE4(FillAttention);
    case Isa::kAvx2:
      return HWY_CHOOSE_AVX2(FillAttention);
    case Isa::kAvx512:
    case Isa::kAvx512Bf16:
      return HWY_CHOOSE_AVX3(FillAttention);
  }
  return nullptr;
}

}  // namespace lorica::kernels::cpu
#endif
