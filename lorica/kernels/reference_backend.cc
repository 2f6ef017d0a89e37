#include "lorica/kernels/reference_backend.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "lorica/base/check.h"
#include "lorica/kernels/quantize.h"
#include "lorica/kernels/reference_attention.h"

namespace lorica::kernels {
namespace {

constexpr int64_t kRanks = 8;

Trace* TraceOf(Trace* trace, const TeamMember& member) {
  return member.thread == 0 ? trace : nullptr;
}

float AsActivation(ActivationType type, float value) {
  return type == ActivationType::kBf16 ? Bf16ToF32(F32ToBf16(value)) : value;
}

float FactorAt(const lora::Factor& factor, int64_t index) {
  float value = 0.0f;
  DequantizeRow(factor.dtype, factor.data + ElementsToBytes(factor.dtype, index), 1, &value);
  return value;
}

template <typename Sum>
void ShrinkOne(const LinearParams& p, const lora::ShrinkItem& item) {
  const lora::Segment& segment = p.segments->segments()[static_cast<size_t>(item.segment)];
  const LinearPart& part = p.parts[static_cast<size_t>(item.part)];
  const lora::SiteEntry& entry = p.table->Entry(segment.slot, part.site);
  for (int32_t i = item.row_begin; i < item.row_end; ++i) {
    const float* x = p.x + p.segments->order()[static_cast<size_t>(i)] * p.x_stride;
    float* s = p.s_scratch + item.s_offset + int64_t{i - item.row_begin} * item.s_stride;
    for (int32_t t = item.tile_begin; t < item.tile_end; ++t) {
      const lora::TileRef& tile = entry.tiles[static_cast<size_t>(t)];
      const auto* a = reinterpret_cast<const float*>(tile.address);
      for (int64_t r = 0; r < kRanks; ++r) {
        Sum sum = 0;
        for (int64_t k = 0; k < p.k; ++k) {
          sum += Sum{AsActivation(p.activation_type, x[k])} * Sum{a[r * p.k + k]};
        }
        s[(t - item.tile_begin) * kRanks + r] = static_cast<float>(sum * Sum{tile.scale});
      }
    }
  }
}

// What the tiles of `item` add to element (row `i` of the order, column n).
template <typename Sum>
Sum AddExpand(const LinearParams& p, const lora::ExpandItem& item, int32_t i, int64_t n, Sum sum) {
  const lora::Segment& segment = p.segments->segments()[static_cast<size_t>(item.segment)];
  const LinearPart& part = p.parts[static_cast<size_t>(item.part)];
  const lora::SiteEntry& entry = p.table->Entry(segment.slot, part.site);
  const float* s = p.s_scratch + item.s_offset + int64_t{i - item.row_begin} * item.s_stride;
  for (int32_t t = 0; t < item.tiles; ++t) {
    const auto* b =
        reinterpret_cast<const float*>(entry.tiles[static_cast<size_t>(t)].address) + kRanks * p.k;
    for (int64_t r = 0; r < kRanks; ++r) sum += Sum{s[t * kRanks + r]} * Sum{b[n * kRanks + r]};
  }
  return sum;
}

// Row `row` as the base product of this part reads it.
template <typename Sum>
std::vector<Sum> BaseInput(const LinearParams& p, const LinearPart& part, int64_t row) {
  const float* x = p.x + row * p.x_stride;
  std::vector<Sum> out(static_cast<size_t>(p.k));
  const bool quantized = part.weight->layout == WeightLayout::kRowsF32Quant;
  for (int64_t first = 0; first < p.k; first += kQuantBlock) {
    const int64_t last = std::min(first + kQuantBlock, p.k);
    uint32_t greatest = 0;
    for (int64_t k = first; k < last; ++k) {
      greatest = std::max(greatest, std::bit_cast<uint32_t>(x[k]) & 0x7fffffffu);
    }
    const InputScale scale = ScaleOfInput(greatest);
    for (int64_t k = first; k < last; ++k) {
      out[static_cast<size_t>(k)] =
          quantized ? Sum{scale.scale} * Sum{std::nearbyint(x[k] * scale.inverse)}
                    : Sum{AsActivation(p.activation_type, x[k])};
    }
  }
  return out;
}

// Row `row`, columns [columns.begin, columns.end) of one part; `items` are the expands that touch
// this row at this part, and `i` is the row's place in the segment order.
template <typename Sum>
void LinearRow(const LinearParams& p, const LinearPart& part, int64_t row, IndexRange columns,
               const std::vector<const lora::ExpandItem*>& items, int32_t i) {
  const auto weight = part.weight->data.as<float>();
  const std::vector<Sum> x = BaseInput<Sum>(p, part, row);
  float* y = part.y + row * part.y_stride;
  for (int64_t n = columns.begin; n < columns.end; ++n) {
    const float* w = weight.data() + n * p.k;
    Sum sum = 0;
    for (int64_t k = 0; k < p.k; ++k) sum += x[static_cast<size_t>(k)] * Sum{w[k]};
    for (const lora::ExpandItem* item : items) {
      if (n >= item->column_begin && n < item->column_end) {
        sum = AddExpand<Sum>(p, *item, i, n, sum);
      }
    }
    if (part.epilogue.bias != nullptr) sum += Sum{part.epilogue.bias[n]};
    y[n] =
        part.epilogue.add_to_output ? static_cast<float>(Sum{y[n]} + sum) : static_cast<float>(sum);
  }
}

constexpr int32_t kInNoSegment = -1;

template <typename Sum>
void Linear(const LinearParams& p, const TeamMember& member) {
  const TraceScope whole(TraceOf(p.trace, member), Zone::kLinear);
  const bool has_lora = p.plan != nullptr && !p.plan->empty();
  // Of each row in the order.
  std::vector<int32_t> place(static_cast<size_t>(p.rows), kInNoSegment);
  if (has_lora) {
    LORICA_CHECK(p.plan->fused.empty());
    {
      const TraceScope shrink(TraceOf(p.trace, member), Zone::kLoraShrink);
      for (int32_t w = member.thread; w < p.plan->workers; w += member.threads) {
        const int32_t end = p.plan->shrink_begin[static_cast<size_t>(w) + 1];
        for (int32_t i = p.plan->shrink_begin[static_cast<size_t>(w)]; i < end; ++i) {
          ShrinkOne<Sum>(p, p.plan->shrinks[static_cast<size_t>(i)]);
        }
      }
    }
    member.Sync();
    const std::vector<int32_t>& order = p.segments->order();
    for (size_t i = 0; i < order.size(); ++i) {
      place[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
    }
    if (Trace* trace = TraceOf(p.trace, member)) trace->Add(Zone::kLoraExpand, 0);
  }
  std::vector<const lora::ExpandItem*> items;
  for (size_t part = 0; part < p.parts.size(); ++part) {
    const IndexRange columns = SplitRange(p.parts[part].weight->n, member);
    for (int64_t row = 0; row < p.rows; ++row) {
      items.clear();
      const int32_t i = place[static_cast<size_t>(row)];
      if (i != kInNoSegment) {
        for (const lora::ExpandItem& item : p.plan->expands) {
          if (item.part == static_cast<int32_t>(part) && i >= item.row_begin && i < item.row_end) {
            items.push_back(&item);
          }
        }
      }
      LinearRow<Sum>(p, p.parts[part], row, columns, items, i);
    }
  }
}

template <typename Sum>
void NormRow(const RmsNormParams& p, const float* x, float* y) {
  Sum squares = 0;
  for (int64_t i = 0; i < p.width; ++i) squares += Sum{x[i]} * Sum{x[i]};
  const Sum factor =
      Sum{1} / std::sqrt(squares / static_cast<Sum>(p.width) + static_cast<Sum>(p.epsilon));
  for (int64_t i = 0; i < p.width; ++i) {
    y[i] = static_cast<float>(Sum{x[i]} * factor * Sum{p.weight[i]});
  }
}

void RotateHead(const RopeParams& p, int64_t position, float* head) {
  const int32_t half = p.rotary_dims / 2;
  for (int32_t i = 0; i < half; ++i) {
    const double c = p.cos_table[position * half + i];
    const double s = p.sin_table[position * half + i];
    const double a = head[i];
    const double b = head[i + half];
    head[i] = static_cast<float>(a * c - b * s);
    head[i + half] = static_cast<float>(b * c + a * s);
  }
}

}  // namespace

int64_t ReferenceTilePacker::TileBytes(const lora::TileShape& shape) const {
  const int64_t bytes = kRanks * (shape.k + shape.n) * static_cast<int64_t>(sizeof(float));
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

void ReferenceTilePacker::PackTile(const lora::SiteFactors& factors, int32_t rank_begin,
                                   std::byte* tile) const {
  auto* a = reinterpret_cast<float*>(tile);
  float* b = a + kRanks * factors.shape.k;
  for (int64_t r = 0; r < kRanks; ++r) {
    const int64_t rank = rank_begin + r;
    const bool inside = rank < factors.rank;
    for (int64_t k = 0; k < factors.shape.k; ++k) {
      a[r * factors.shape.k + k] = inside ? FactorAt(factors.a, rank * factors.shape.k + k) : 0.0f;
    }
    for (int64_t n = 0; n < factors.shape.n; ++n) {
      b[n * kRanks + r] = inside ? FactorAt(factors.b, n * factors.rank + rank) : 0.0f;
    }
  }
}

Result<Weight> ReferenceBackend::PackWeight(const RowSource& source, DType storage,
                                            MachineContext* context) const {
  Weight weight;
  const bool quantized = IsQuantized(storage);
  weight.layout = quantized ? WeightLayout::kRowsF32Quant : WeightLayout::kRowsF32;
  weight.k = source.k();
  weight.n = source.n();
  LORICA_ASSIGN_OR_RETURN(
      weight.data, Buffer::Allocate(weight.k * weight.n * static_cast<int64_t>(sizeof(float)),
                                    MemoryTag::kWeights, &context->ledger));
  const auto data = weight.data.as<float>();
  for (int64_t n = 0; n < weight.n; ++n) {
    const auto row = data.subspan(static_cast<size_t>(n * weight.k), static_cast<size_t>(weight.k));
    if (quantized) {
      QuantRow quant;
      ReadQuantRow(source, n, storage, row, &quant);
      kernels::DequantizeRow(storage, quant, row);
      continue;
    }
    source.ReadRow(n, row);
    if (storage == DType::kBF16) {
      for (float& value : row) value = Bf16ToF32(F32ToBf16(value));
    }
    if (storage == DType::kF16) {
      for (float& value : row) value = F16ToF32(F32ToF16(value));
    }
  }
  return weight;
}

void ReferenceBackend::UnpackRow(const Weight& weight, int64_t n, std::span<float> row) const {
  const auto data = weight.data.as<float>();
  std::copy_n(data.data() + n * weight.k, weight.k, row.data());
}

lora::PlanLimits ReferenceBackend::plan_limits(int32_t workers) const {
  lora::PlanLimits limits;
  limits.workers = workers;
  return limits;
}

int64_t ReferenceBackend::PackedInputFloats(int64_t, int64_t) const { return 0; }
int64_t ReferenceBackend::AttentionScratchFloats(const AttentionShape&) const { return 0; }

void ReferenceBackend::LoraLinear(const LinearParams& params, const TeamMember& member) const {
  if (sums_ == Sums::kF64) {
    Linear<double>(params, member);
  } else {
    Linear<float>(params, member);
  }
  if (params.combine == Combine::kSwiGlu) {
    member.Sync();
    SwiGlu(SwiGluOf(params), member);
  }
}

void ReferenceBackend::RmsNorm(const RmsNormParams& p, const TeamMember& member) const {
  const IndexRange rows = SplitRange(p.rows, member);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    if (sums_ == Sums::kF64) {
      NormRow<double>(p, p.x + row * p.x_stride, p.y + row * p.y_stride);
    } else {
      NormRow<float>(p, p.x + row * p.x_stride, p.y + row * p.y_stride);
    }
  }
}

void ReferenceBackend::Rope(const RopeParams& p, const TeamMember& member) const {
  const IndexRange items = SplitRange(p.rows * p.kv_heads, member);
  const int64_t group = p.heads / p.kv_heads;
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t row = item / p.kv_heads;
    const int64_t kv_head = item % p.kv_heads;
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      RotateHead(p, p.positions[row], p.q + row * p.q_stride + h * p.head_dim);
    }
    RotateHead(p, p.positions[row], p.k + row * p.k_stride + kv_head * p.head_dim);
  }
}

void ReferenceBackend::KvWrite(const KvWriteParams& params, const TeamMember& member) const {
  ReferenceKvWrite(params, member);
}

void ReferenceBackend::Attention(const AttentionParams& params, const TeamMember& member) const {
  ReferenceAttention(sums_, params, member);
}

void ReferenceBackend::SwiGlu(const SwiGluParams& p, const TeamMember& member) const {
  const IndexRange rows = SplitRange(p.rows, member);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    for (int64_t i = 0; i < p.width; ++i) {
      const double gate = p.gate[row * p.gate_stride + i];
      const double up = p.up[row * p.up_stride + i];
      p.y[row * p.y_stride + i] = static_cast<float>(gate / (1.0 + std::exp(-gate)) * up);
    }
  }
}

void ReferenceBackend::Embed(const EmbedParams& p, const TeamMember& member) const {
  const IndexRange rows = SplitRange(static_cast<int64_t>(p.tokens.size()), member);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    UnpackRow(*p.table, p.tokens[static_cast<size_t>(row)],
              {p.y + row * p.y_stride, static_cast<size_t>(p.table->k)});
  }
}

void ReferenceBackend::LogitStats(const LogitStatsParams& p, const TeamMember& member) const {
  const IndexRange rows = SplitRange(p.rows, member);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const float* logits = p.logits + row * p.stride;
    RowStats stats;
    stats.max = -std::numeric_limits<float>::infinity();
    for (int64_t i = 0; i < p.vocab; ++i) {
      if (!std::isfinite(logits[i])) stats.finite = false;
      if (logits[i] > stats.max) {
        stats.max = logits[i];
        stats.argmax = static_cast<int32_t>(i);
      }
    }
    for (int64_t i = 0; i < p.vocab; ++i) {
      stats.sum_exp += std::exp(double{logits[i]} - double{stats.max});
    }
    p.stats[row] = stats;
  }
}

}  // namespace lorica::kernels
