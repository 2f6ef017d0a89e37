// The writing of K and V of a step into their pages, rounded to the pages' type.

#include <bit>
#include <cmath>
#include <cstdint>

#include "lorica/base/dtype.h"
#include "lorica/base/thread_pool.h"
#include "lorica/kernels/cpu/lanes-inl.h"
#include "lorica/kernels/params.h"
#include "lorica/kernels/quantize.h"

#if defined(LORICA_KERNELS_CPU_KV_WRITE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_KERNELS_CPU_KV_WRITE_INL_H_
#undef LORICA_KERNELS_CPU_KV_WRITE_INL_H_
#else
#define LORICA_KERNELS_CPU_KV_WRITE_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace lorica::kernels::cpu::HWY_NAMESPACE {

// One head's row of K or V into its page: element d lies `d * stride` after the first.
struct KvRow {
  const float* row = nullptr;
  std::byte* head = nullptr;   // of K or V in the page
  std::byte* scale = nullptr;  // of the row, int8 alone
  int64_t first = 0;           // where element 0 lies
  int64_t stride = 1;
};

template <class T, class Round>
void StoreKvRow(const KvLayout& kv, const KvRow& at, const Round& round) {
  T* to = reinterpret_cast<T*>(at.head) + at.first;
  for (int64_t d = 0; d < kv.head_dim; ++d) to[d * at.stride] = round(at.row[d]);
}

inline void StoreKvRowI8(const KvLayout& kv, const KvRow& at) {
  uint32_t greatest = 0;
  for (int64_t d = 0; d < kv.head_dim; ++d) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(at.row[d]) & 0x7fffffffu;
    greatest = magnitude > greatest ? magnitude : greatest;
  }
  const InputScale scale = ScaleOfInput(greatest);
  *reinterpret_cast<float*>(at.scale) = scale.scale;
  // The scale alone says that a row is not finite.
  const bool is_number = scale.scale == scale.scale;
  StoreKvRow<int8_t>(kv, at, [&](float value) HWY_ATTR {
    return is_number ? static_cast<int8_t>(std::lrintf(value * scale.inverse)) : int8_t{0};
  });
}

inline void StoreKvRow(const KvLayout& kv, const KvRow& at) {
  switch (kv.dtype) {
    case DType::kF32:
      return StoreKvRow<float>(kv, at, [](float value) { return value; });
    case DType::kBF16:
      return StoreKvRow<uint16_t>(kv, at, [](float value) { return F32ToBf16(value); });
    case DType::kI8:
      return StoreKvRowI8(kv, at);
    default:
      return StoreKvRow<uint16_t>(kv, at, [](float value) { return F32ToF16(value); });
  }
}

inline void KvWrite(const KvWriteParams& p, const TeamMember& member) {
  const KvLayout& kv = p.layout;
  int64_t rows = 0;
  for (const AttentionSequence& sequence : p.sequences) rows += sequence.rows;
  const IndexRange mine = SplitRange(rows * kv.kv_heads, member);  // as Rope has them
  for (const AttentionSequence& sequence : p.sequences) {
    for (int32_t i = 0; i < sequence.rows; ++i) {
      const int64_t row = sequence.row_begin + i;
      const int64_t position = sequence.position_begin + i;
      const int64_t slot = position % kPageTokens;
      const int64_t scale = slot * static_cast<int64_t>(sizeof(float));
      std::byte* layer = p.pages + sequence.pages[position / kPageTokens] * kv.PageBytes() +
                         p.layer * kv.LayerBytes();
      for (int32_t h = 0; h < kv.kv_heads; ++h) {
        const int64_t item = row * kv.kv_heads + h;
        if (item < mine.begin || item >= mine.end) continue;
        const int64_t column = int64_t{h} * kv.head_dim;
        StoreKvRow(kv, {.row = p.k + row * p.k_stride + column,
                        .head = layer + kv.KOffset(h),
                        .scale = layer + kv.KScaleOffset(h) + scale,
                        .first = slot,
                        .stride = kPageTokens});
        StoreKvRow(kv, {.row = p.v + row * p.v_stride + column,
                        .head = layer + kv.VOffset(h),
                        .scale = layer + kv.VScaleOffset(h) + scale,
                        .first = slot * kv.head_dim,
                        .stride = 1});
      }
    }
  }
}

}  // namespace lorica::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
