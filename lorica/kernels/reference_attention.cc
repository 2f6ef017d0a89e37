#include "lorica/kernels/reference_attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "lorica/base/check.h"
#include "lorica/kernels/quantize.h"

namespace lorica::kernels {
namespace {

// K or V of a head in a page.
struct PageHead {
  std::byte* elements = nullptr;
  float* scales = nullptr;  // [page_tokens], int8 alone
};
PageHead KOf(const KvLayout& layout, std::byte* page_layer, int64_t kv_head) {
  return {page_layer + layout.KOffset(kv_head),
          reinterpret_cast<float*>(page_layer + layout.KScaleOffset(kv_head))};
}
PageHead VOf(const KvLayout& layout, std::byte* page_layer, int64_t kv_head) {
  return {page_layer + layout.VOffset(kv_head),
          reinterpret_cast<float*>(page_layer + layout.VScaleOffset(kv_head))};
}

// An element, `slot` being its position in the page.
float LoadElement(const KvLayout& layout, const PageHead& head, int64_t index, int64_t slot) {
  if (layout.has_scales()) {
    return static_cast<float>(reinterpret_cast<const int8_t*>(head.elements)[index]) *
           head.scales[slot];
  }
  float value = 0.0f;
  DequantizeRow(layout.dtype, head.elements + ElementsToBytes(layout.dtype, index), 1, &value);
  return value;
}

void StoreElement(DType dtype, std::byte* base, int64_t index, float value) {
  switch (dtype) {
    case DType::kF32:
      reinterpret_cast<float*>(base)[index] = value;
      break;
    case DType::kF16:
      reinterpret_cast<uint16_t*>(base)[index] = F32ToF16(value);
      break;
    case DType::kBF16:
      reinterpret_cast<uint16_t*>(base)[index] = F32ToBf16(value);
      break;
    case DType::kI8:
      reinterpret_cast<int8_t*>(base)[index] = static_cast<int8_t>(std::nearbyint(value));
      break;
    default:
      LORICA_CHECK(false);
  }
}

// A head's row of K (elements `stride` apart) or of V at position `slot` of its page.
void StoreRow(const KvLayout& layout, const float* row, int64_t slot, int64_t first, int64_t stride,
              const PageHead& head) {
  InputScale scale{1.0f, 1.0f};
  if (layout.has_scales()) {
    uint32_t greatest = 0;
    for (int64_t d = 0; d < layout.head_dim; ++d) {
      greatest = std::max(greatest, std::bit_cast<uint32_t>(row[d]) & 0x7fffffffu);
    }
    scale = ScaleOfInput(greatest);
    head.scales[slot] = scale.scale;
  }
  for (int64_t d = 0; d < layout.head_dim; ++d) {
    const bool is_number = std::isfinite(scale.scale);
    StoreElement(layout.dtype, head.elements, first + d * stride,
                 is_number ? row[d] * scale.inverse : 0.0f);
  }
}

// Element indices inside K and inside V of a head in a page.
int64_t KIndex(const KvLayout& layout, int64_t dim, int64_t slot) {
  return dim * layout.page_tokens + slot;
}
int64_t VIndex(const KvLayout& layout, int64_t dim, int64_t slot) {
  return slot * layout.head_dim + dim;
}

// One (row, head) of attention over positions [0, length).
template <typename Sum>
void AttendOne(const AttentionParams& p, const AttentionSequence& sequence, int64_t row,
               int64_t head, int64_t length) {
  const KvLayout& kv = p.layout;
  const int64_t kv_head = head / (p.heads / kv.kv_heads);
  const float* q = p.q + row * p.q_stride + head * kv.head_dim;
  float* out = p.out + row * p.out_stride + head * kv.head_dim;
  const auto page_of = [&](int64_t position) {
    return const_cast<std::byte*>(p.pages) +
           sequence.pages[position / kv.page_tokens] * kv.PageBytes() + p.layer * kv.LayerBytes();
  };
  std::vector<Sum> weight(static_cast<size_t>(length));
  Sum max = -std::numeric_limits<Sum>::infinity();
  for (int64_t t = 0; t < length; ++t) {
    Sum dot = 0;
    for (int64_t d = 0; d < kv.head_dim; ++d) {
      const int64_t slot = t % kv.page_tokens;
      dot +=
          Sum{q[d]} * Sum{LoadElement(kv, KOf(kv, page_of(t), kv_head), KIndex(kv, d, slot), slot)};
    }
    weight[static_cast<size_t>(t)] = dot * Sum{p.scale};
    max = std::max(max, weight[static_cast<size_t>(t)]);
  }
  Sum total = 0;
  for (Sum& w : weight) {
    w = std::exp(w - max);
    total += w;
  }
  for (int64_t d = 0; d < kv.head_dim; ++d) {
    Sum sum = 0;
    for (int64_t t = 0; t < length; ++t) {
      const int64_t slot = t % kv.page_tokens;
      sum += weight[static_cast<size_t>(t)] *
             Sum{LoadElement(kv, VOf(kv, page_of(t), kv_head), VIndex(kv, d, slot), slot)};
    }
    out[d] = static_cast<float>(sum / total);
  }
}

template <typename Sum>
void AttendAll(const AttentionParams& p, const TeamMember& member) {
  int64_t item = 0;  // (row, head), dealt out in turn
  for (const AttentionSequence& sequence : p.sequences) {
    for (int32_t i = 0; i < sequence.rows; ++i) {
      for (int32_t head = 0; head < p.heads; ++head, ++item) {
        if (item % member.threads != member.thread) continue;
        AttendOne<Sum>(p, sequence, sequence.row_begin + i, head, sequence.position_begin + i + 1);
      }
    }
  }
}

}  // namespace

void ReferenceKvWrite(const KvWriteParams& p, const TeamMember& member) {
  const KvLayout& kv = p.layout;
  int64_t rows = 0;
  for (const AttentionSequence& sequence : p.sequences) rows += sequence.rows;
  const IndexRange mine = SplitRange(rows * kv.kv_heads, member);
  for (const AttentionSequence& sequence : p.sequences) {
    for (int32_t i = 0; i < sequence.rows; ++i) {
      const int64_t row = sequence.row_begin + i;
      const int64_t position = sequence.position_begin + i;
      const int64_t slot = position % kv.page_tokens;
      std::byte* layer = p.pages + sequence.pages[position / kv.page_tokens] * kv.PageBytes() +
                         p.layer * kv.LayerBytes();
      for (int64_t h = 0; h < kv.kv_heads; ++h) {
        const int64_t item = row * kv.kv_heads + h;
        if (item < mine.begin || item >= mine.end) continue;
        const int64_t column = h * kv.head_dim;
        StoreRow(kv, p.k + row * p.k_stride + column, slot, KIndex(kv, 0, slot), kv.page_tokens,
                 KOf(kv, layer, h));
        StoreRow(kv, p.v + row * p.v_stride + column, slot, VIndex(kv, 0, slot), 1,
                 VOf(kv, layer, h));
      }
    }
  }
}

void ReferenceAttention(Sums sums, const AttentionParams& params, const TeamMember& member) {
  if (sums == Sums::kF64) {
    AttendAll<double>(params, member);
  } else {
    AttendAll<float>(params, member);
  }
}

}  // namespace lorica::kernels
