#include "lorica/kernels/cpu/quant_packing.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "lorica/base/machine_context.h"
#include "lorica/kernels/cpu/packing.h"

namespace lorica::kernels::cpu {
namespace {

// Where q of (column, k) lies: whether in the high half of its byte, and, of six bits, where the
// highest two do.
struct Place {
  int64_t byte = 0;
  int shift = 0;
  int64_t high_byte = 0;
  int high_shift = 0;
};
Place PlaceOf(DType storage, int64_t column, int64_t k) {
  const int64_t quad = k / 4;
  const int64_t lane = column * 4 + k % 4;
  if (storage == DType::kQ6_K) {
    const int64_t half = quad / 4 * 192;
    const auto of_half = static_cast<int>(quad % 4);
    return {half + of_half / 2 * 64 + lane, of_half % 2 * 4, half + 128 + lane, of_half * 2};
  }
  if (!IsFourBit(storage)) return {quad * 64 + lane, 0};
  return {quad / 2 * 64 + lane, quad % 2 == 0 ? 0 : 4};
}

void PackColumn(DType storage, const QuantRow& row, int64_t column, std::byte* panel) {
  for (size_t k = 0; k < row.q.size(); ++k) {
    const Place place = PlaceOf(storage, column, static_cast<int64_t>(k));
    if (storage == DType::kQ6_K) {
      panel[place.byte] |= static_cast<std::byte>((row.q[k] & 15) << place.shift);
      panel[place.high_byte] |= static_cast<std::byte>(row.q[k] >> 4 << place.high_shift);
    } else {
      panel[place.byte] |= static_cast<std::byte>(row.q[k] << place.shift);
    }
  }
}

void PackSuperScales(DType storage, const QuantRow& row, int64_t column, std::byte* scales) {
  for (size_t super = 0; super < row.d.size(); ++super) {
    uint16_t* halves =
        reinterpret_cast<uint16_t*>(scales + static_cast<int64_t>(super) * SuperStride(storage));
    halves[column] = F32ToF16(row.d[super]);
    if (!row.m.empty()) halves[kPanelColumns + column] = F32ToF16(row.m[super]);
  }
  for (size_t b = 0; b < row.q.size() / kQuantBlock; ++b) {
    std::byte* first = scales + SubScalesAt(storage, static_cast<int64_t>(b)) + column;
    const bool has_minimum = HasMinimum(storage);
    first[0] = static_cast<std::byte>(row.sub_d[has_minimum ? b : 2 * b]);
    first[kPanelColumns] =
        static_cast<std::byte>(has_minimum ? row.sub_m[b] : row.sub_d[2 * b + 1]);
  }
}

void PackScales(DType storage, const QuantRow& row, int64_t column, std::byte* scales) {
  if (IsSuperBlocked(storage)) return PackSuperScales(storage, row, column, scales);
  if (storage == DType::kI8) {
    reinterpret_cast<float*>(scales)[column] = row.d[0];
    return;
  }
  auto* halves = reinterpret_cast<uint16_t*>(scales);
  const int64_t stride = kPanelColumns * (row.m.empty() ? 1 : 2);
  for (size_t b = 0; b < row.d.size(); ++b) {
    uint16_t* of_block = halves + static_cast<int64_t>(b) * stride + column;
    of_block[0] = F32ToF16(row.d[b]);
    if (!row.m.empty()) of_block[kPanelColumns] = F32ToF16(row.m[b]);
  }
}

// d, and m, of k in one column.
struct UnpackedScale {
  float d = 0.0f;
  float m = 0.0f;
};
UnpackedScale ScaleAt(DType storage, const std::byte* scales, int64_t column, int64_t k) {
  const auto half = [&](int64_t byte) {
    uint16_t bits = 0;
    std::memcpy(&bits, scales + byte + 2 * column, sizeof(bits));
    return F16ToF32(bits);
  };
  if (storage == DType::kI8) return {reinterpret_cast<const float*>(scales)[column], 0.0f};
  const int64_t block = k / kQuantBlock;
  if (!IsSuperBlocked(storage)) {
    const int64_t at = block * BlockScaleBytes(storage);
    return {half(at), HasMinimum(storage) ? half(at + 2 * kPanelColumns) : 0.0f};
  }
  const int64_t super = block / kBlocksOfSuper * SuperStride(storage);
  const std::byte* subs = scales + SubScalesAt(storage, block) + column;
  const auto sub = [&](int64_t i) {
    return static_cast<float>(std::to_integer<int8_t>(subs[i * kPanelColumns]));
  };
  if (!HasMinimum(storage)) return {half(super) * sub(k / 16 % 2), 0.0f};
  return {half(super) * sub(0), half(super + 2 * kPanelColumns) * sub(1)};
}

}  // namespace

Result<Weight> PackQuantPanels(const RowSource& source, DType storage, MachineContext* context) {
  Weight weight;
  weight.layout = LayoutOf(storage);
  weight.k = source.k();
  weight.n = source.n();
  const int64_t panels = Panels(weight.n);
  const int64_t panel_bytes = QuantPanelBytes(storage, weight.k);
  const int64_t scale_bytes = QuantScaleBytes(storage, weight.k);
  LORICA_ASSIGN_OR_RETURN(
      weight.data, Buffer::Allocate(panels * panel_bytes, MemoryTag::kWeights, &context->ledger));
  LORICA_ASSIGN_OR_RETURN(
      weight.scales, Buffer::Allocate(panels * scale_bytes, MemoryTag::kWeights, &context->ledger));
  context->pool.Run([&](const TeamMember& member) {
    QuantRow row;
    std::vector<float> scratch(static_cast<size_t>(weight.k));
    const IndexRange range = SplitRange(panels, member);
    for (int64_t panel = range.begin; panel < range.end; ++panel) {
      const int64_t first = panel * kPanelColumns;
      const int64_t columns = std::min(kPanelColumns, weight.n - first);
      for (int64_t j = 0; j < columns; ++j) {
        ReadQuantRow(source, first + j, storage, scratch, &row);
        PackColumn(storage, row, j, weight.data.data() + panel * panel_bytes);
        PackScales(storage, row, j, weight.scales.data() + panel * scale_bytes);
      }
    }
  });
  return weight;
}

void UnpackQuantRow(const Weight& weight, int64_t n, std::span<float> row) {
  const DType storage = LayoutDType(weight.layout);
  const int64_t panel = n / kPanelColumns;
  const int64_t column = n % kPanelColumns;
  const std::byte* data = weight.data.data() + panel * QuantPanelBytes(storage, weight.k);
  const std::byte* scales = weight.scales.data() + panel * QuantScaleBytes(storage, weight.k);
  const bool is_six_bit = storage == DType::kQ6_K;
  const int32_t mask = IsFourBit(storage) || is_six_bit ? 15 : 255;
  UnpackedScale scale;
  for (int64_t k = 0; k < weight.k; ++k) {
    if (k % (kQuantBlock / 2) == 0) scale = ScaleAt(storage, scales, column, k);
    const Place place = PlaceOf(storage, column, k);
    int32_t q = (std::to_integer<int32_t>(data[place.byte]) >> place.shift) & mask;
    if (is_six_bit) {
      q |= (std::to_integer<int32_t>(data[place.high_byte]) >> place.high_shift & 3) << 4;
    }
    row[static_cast<size_t>(k)] = scale.d * static_cast<float>(q - QuantZero(storage)) + scale.m;
  }
}

}  // namespace lorica::kernels::cpu
