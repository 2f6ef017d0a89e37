// The writing of K and V of a step into their pages, rounded to the pages' type.

#include <cstdint>

#include "lorica/base/dtype.h"
#include "lorica/base/thread_pool.h"
#include "lorica/kernels/cpu/lanes-inl.h"
#include "lorica/kernels/params.h"

#if defined(LORICA_KERNELS_CPU_KV_WRITE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_KERNELS_CPU_KV_WRITE_INL_H_
#undef LORICA_KERNELS_CPU_KV_WRITE_INL_H_
#else
#define LORICA_KERNELS_CPU_KV_WRITE_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace lorica::kernels::cpu::HWY_NAMESPACE {

template <class T, class Round>
void WriteRow(const KvWriteParams& p, int64_t row, int64_t position, const int32_t* pages,
              Round round) {
  const KvLayout& kv = p.layout;
  auto* layer = reinterpret_cast<T*>(p.pages + pages[position / kPageTokens] * kv.PageBytes() +
                                     p.layer * kv.LayerBytes());
  const int64_t width = int64_t{kv.kv_heads} * kv.head_dim;
  const int64_t slot = position % kPageTokens;
  const float* k = p.k + row * p.k_stride;
  const float* v = p.v + row * p.v_stride;
  for (int64_t i = 0; i < width; ++i) layer[i * kPageTokens + slot] = round(k[i]);
  T* values = layer + width * kPageTokens;
  for (int64_t h = 0; h < kv.kv_heads; ++h) {
    T* to = values + (h * kPageTokens + slot) * kv.head_dim;
    for (int64_t d = 0; d < kv.head_dim; ++d) to[d] = round(v[h * kv.head_dim + d]);
  }
}

inline float KeepF32(float value) { return value; }

inline void KvWrite(const KvWriteParams& p, const TeamMember& member) {
  int64_t item = 0;  // a row, dealt out in turn
  for (const AttentionSequence& sequence : p.sequences) {
    for (int32_t i = 0; i < sequence.rows; ++i, ++item) {
      if (item % member.threads != member.thread) continue;
      const int64_t row = sequence.row_begin + i;
      const int64_t position = sequence.position_begin + i;
      switch (p.layout.dtype) {
        case DType::kF32:
          WriteRow<float>(p, row, position, sequence.pages, KeepF32);
          break;
        case DType::kBF16:
          WriteRow<uint16_t>(p, row, position, sequence.pages, F32ToBf16);
          break;
        default:
          WriteRow<uint16_t>(p, row, position, sequence.pages, F32ToF16);
          break;
      }
    }
  }
}

}  // namespace lorica::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
