#include "lorica/kernels/cpu/quant_packing.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "lorica/base/machine_context.h"
#include "lorica/kernels/cpu/packing.h"

namespace lorica::kernels::cpu {
namespace {

// Where q of (column, k) lies, and whether in the high half of its byte.
struct Place {
  int64_t byte = 0;
  int shift = 0;
};
Place PlaceOf(DType storage, int64_t column, int64_t k) {
  const int64_t quad = k / 4;
  const int64_t lane = column * 4 + k % 4;
  if (!IsFourBit(storage)) return {quad * 64 + lane, 0};
  return {quad / 2 * 64 + lane, quad % 2 == 0 ? 0 : 4};
}

void PackColumn(DType storage, const QuantRow& row, int64_t column, std::byte* panel) {
  for (size_t k = 0; k < row.q.size(); ++k) {
    const Place place = PlaceOf(storage, column, static_cast<int64_t>(k));
    panel[place.byte] |= static_cast<std::byte>(row.q[k] << place.shift);
  }
}

void PackScales(DType storage, const QuantRow& row, int64_t column, std::byte* scales) {
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
  const auto* halves = reinterpret_cast<const uint16_t*>(scales);
  const int64_t stride = kPanelColumns * (storage == DType::kQ4_1 ? 2 : 1);
  const int32_t mask = IsFourBit(storage) ? 15 : 255;
  float d = reinterpret_cast<const float*>(scales)[column];
  float m = 0.0f;
  for (int64_t k = 0; k < weight.k; ++k) {
    if (storage != DType::kI8 && k % kQuantBlock == 0) {
      const uint16_t* of_block = halves + k / kQuantBlock * stride + column;
      d = F16ToF32(of_block[0]);
      if (storage == DType::kQ4_1) m = F16ToF32(of_block[kPanelColumns]);
    }
    const Place place = PlaceOf(storage, column, k);
    const int32_t q = (std::to_integer<int32_t>(data[place.byte]) >> place.shift) & mask;
    row[static_cast<size_t>(k)] = d * static_cast<float>(q - QuantZero(storage)) + m;
  }
}

}  // namespace lorica::kernels::cpu
