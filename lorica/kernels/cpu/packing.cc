#include "lorica/kernels/cpu/packing.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "lorica/base/check.h"
#include "lorica/base/machine_context.h"
#include "lorica/kernels/cpu/quant_packing.h"

namespace lorica::kernels::cpu {
namespace {

// k positions packed at a time: one cache line of each source row.
constexpr int64_t kBlock = 16;

void PackBf16(const PanelSource& s, int64_t width, uint32_t* panel) {
  for (int64_t k0 = 0; k0 < s.k; k0 += kBlock) {
    const int64_t k1 = std::min(k0 + kBlock, s.k);
    for (int64_t j = 0; j < s.columns; ++j) {
      const float* row = s.rows + j * s.stride;
      for (int64_t k = k0; k < k1; k += 2) {
        const uint32_t high = F32ToBf16(row[k]);
        const uint32_t low = k + 1 < s.k ? F32ToBf16(row[k + 1]) : 0u;
        panel[k / 2 * width + j] = high << 16 | low;
      }
    }
  }
}

void PackF16(const PanelSource& s, int64_t width, uint16_t* panel) {
  for (int64_t k0 = 0; k0 < s.k; k0 += kBlock) {
    const int64_t k1 = std::min(k0 + kBlock, s.k);
    for (int64_t j = 0; j < s.columns; ++j) {
      for (int64_t k = k0; k < k1; ++k) panel[k * width + j] = F32ToF16(s.rows[j * s.stride + k]);
    }
  }
}

void PackF32(const PanelSource& s, int64_t width, float* panel) {
  for (int64_t k0 = 0; k0 < s.k; k0 += kBlock) {
    const int64_t k1 = std::min(k0 + kBlock, s.k);
    for (int64_t j = 0; j < s.columns; ++j) {
      for (int64_t k = k0; k < k1; ++k) panel[k * width + j] = s.rows[j * s.stride + k];
    }
  }
}

// Columns of a panel as rows of a factor: row j begins at element first + j * stride.
struct FactorRows {
  const lora::Factor& factor;
  int64_t first = 0;
  int64_t stride = 0;
  int64_t columns = 0;
  int64_t k = 0;

  const std::byte* Row(int64_t j) const {
    return factor.data + ElementsToBytes(factor.dtype, first + j * stride);
  }
};

// A cache line of each row at a time. Whoever asks for an adapter waits for this: 16 bits to 16
// bits are moved as they are, three times as fast as through f32.
void MoveBf16(const FactorRows& s, int64_t width, uint32_t* panel) {
  constexpr int64_t kLine = 32;
  for (int64_t k0 = 0; k0 < s.k; k0 += kLine) {
    const int64_t whole = std::min(k0 + kLine, s.k / 2 * 2);
    for (int64_t j = 0; j < s.columns; ++j) {
      const std::byte* row = s.Row(j);
      for (int64_t k = k0; k < whole; k += 2) {
        uint32_t pair;
        std::memcpy(&pair, row + 2 * k, sizeof(pair));
        panel[k / 2 * width + j] = pair << 16 | pair >> 16;
      }
    }
  }
  if (s.k % 2 == 0) return;
  for (int64_t j = 0; j < s.columns; ++j) {
    uint16_t last;
    std::memcpy(&last, s.Row(j) + 2 * (s.k - 1), sizeof(last));
    panel[s.k / 2 * width + j] = uint32_t{last} << 16;
  }
}

template <typename T>
void MoveRows(const FactorRows& s, int64_t width, T* panel) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t k0 = 0; k0 < s.k; k0 += kLine) {
    const int64_t k1 = std::min(k0 + kLine, s.k);
    for (int64_t j = 0; j < s.columns; ++j) {
      const std::byte* row = s.Row(j);
      for (int64_t k = k0; k < k1; ++k) {
        std::memcpy(&panel[k * width + j], row + k * int64_t{sizeof(T)}, sizeof(T));
      }
    }
  }
}

// Into `bytes` of panel, zeros where there is nothing of the factor.
void PackFactorPanel(const FactorRows& s, DType dtype, int64_t width, int64_t bytes,
                     std::byte* panel) {
  const bool fills = s.columns == width && s.k * width * LanePairBytes(dtype) == 2 * bytes;
  if (!fills) std::memset(panel, 0, static_cast<size_t>(bytes));
  if (s.factor.dtype != dtype) {
    std::vector<float> rows(static_cast<size_t>(s.columns * s.k));
    for (int64_t j = 0; j < s.columns; ++j) {
      DequantizeRow(s.factor.dtype, s.Row(j), s.k, rows.data() + j * s.k);
    }
    return PackF32({rows.data(), s.k, s.columns, s.k}, width, reinterpret_cast<float*>(panel));
  }
  switch (dtype) {
    case DType::kBF16:
      return MoveBf16(s, width, reinterpret_cast<uint32_t*>(panel));
    case DType::kF16:
      return MoveRows(s, width, reinterpret_cast<uint16_t*>(panel));
    default:
      return MoveRows(s, width, reinterpret_cast<float*>(panel));
  }
}

}  // namespace

DType LayoutDType(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kPanelsBf16:
      return DType::kBF16;
    case WeightLayout::kPanelsF16:
      return DType::kF16;
    case WeightLayout::kPanelsF32:
      return DType::kF32;
    case WeightLayout::kPanelsI8:
      return DType::kI8;
    case WeightLayout::kPanelsQ8_0:
      return DType::kQ8_0;
    case WeightLayout::kPanelsQ4_0:
      return DType::kQ4_0;
    case WeightLayout::kPanelsQ4_1:
      return DType::kQ4_1;
    case WeightLayout::kPanelsQ4_K:
      return DType::kQ4_K;
    case WeightLayout::kPanelsQ6_K:
      return DType::kQ6_K;
    case WeightLayout::kRowsF32:
    case WeightLayout::kRowsF32Quant:
    case WeightLayout::kFractals16:
      break;
  }
  LORICA_CHECK(false && "a weight that this backend did not pack");
  return DType::kF32;
}

WeightLayout LayoutOf(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return WeightLayout::kPanelsBf16;
    case DType::kF16:
      return WeightLayout::kPanelsF16;
    case DType::kI8:
      return WeightLayout::kPanelsI8;
    case DType::kQ8_0:
      return WeightLayout::kPanelsQ8_0;
    case DType::kQ4_0:
      return WeightLayout::kPanelsQ4_0;
    case DType::kQ4_1:
      return WeightLayout::kPanelsQ4_1;
    case DType::kQ4_K:
      return WeightLayout::kPanelsQ4_K;
    case DType::kQ6_K:
      return WeightLayout::kPanelsQ6_K;
    default:
      return WeightLayout::kPanelsF32;
  }
}

void PackPanel(const PanelSource& source, DType dtype, int64_t width, std::byte* panel) {
  std::memset(panel, 0, static_cast<size_t>(Pairs(source.k) * width * LanePairBytes(dtype)));
  switch (dtype) {
    case DType::kBF16:
      return PackBf16(source, width, reinterpret_cast<uint32_t*>(panel));
    case DType::kF16:
      return PackF16(source, width, reinterpret_cast<uint16_t*>(panel));
    default:
      return PackF32(source, width, reinterpret_cast<float*>(panel));
  }
}

float PanelElement(DType dtype, const std::byte* panel, int64_t width, int64_t column, int64_t k) {
  if (dtype == DType::kBF16) {
    const uint32_t lane = reinterpret_cast<const uint32_t*>(panel)[k / 2 * width + column];
    return Bf16ToF32(static_cast<uint16_t>(k % 2 == 0 ? lane >> 16 : lane));
  }
  if (dtype == DType::kF16) {
    return F16ToF32(reinterpret_cast<const uint16_t*>(panel)[k * width + column]);
  }
  return reinterpret_cast<const float*>(panel)[k * width + column];
}

void UnpackWeightRow(const Weight& weight, int64_t n, std::span<float> row) {
  const DType dtype = LayoutDType(weight.layout);
  if (IsQuantized(dtype)) return UnpackQuantRow(weight, n, row);
  const std::byte* panel = weight.data.data() + n / kPanelColumns * PanelBytes(dtype, weight.k);
  for (int64_t k = 0; k < weight.k; ++k) {
    row[static_cast<size_t>(k)] = PanelElement(dtype, panel, 16, n % kPanelColumns, k);
  }
}

int64_t CpuTilePacker::TileBytes(const lora::TileShape& shape) const {
  return TileABytes(shape.dtype, shape.k) + Panels(shape.n) * TileBPanelBytes(shape.dtype);
}

void CpuTilePacker::PackTile(const lora::SiteFactors& factors, int32_t rank_begin,
                             std::byte* tile) const {
  const DType dtype = lora::TileDType(factors);
  const int64_t k = factors.shape.k;
  const int64_t n = factors.shape.n;
  const int64_t ranks = std::min<int64_t>(kTileRanks, factors.rank - rank_begin);
  const FactorRows a{factors.a, rank_begin * k, k, ranks, k};
  PackFactorPanel(a, dtype, kTileRanks, TileABytes(dtype, k), tile);
  for (int64_t panel = 0; panel < Panels(n); ++panel) {
    const int64_t first = panel * kPanelColumns;
    const FactorRows b{factors.b, first * factors.rank + rank_begin, factors.rank,
                       std::min(kPanelColumns, n - first), ranks};
    PackFactorPanel(b, dtype, kPanelColumns, TileBPanelBytes(dtype),
                    tile + TileABytes(dtype, k) + panel * TileBPanelBytes(dtype));
  }
}

Result<Weight> PackPanels(const RowSource& source, DType storage, MachineContext* context) {
  if (IsQuantized(storage)) return PackQuantPanels(source, storage, context);
  Weight weight;
  weight.layout = LayoutOf(storage);
  const DType dtype = LayoutDType(weight.layout);
  weight.k = source.k();
  weight.n = source.n();
  const int64_t panels = Panels(weight.n);
  LORICA_ASSIGN_OR_RETURN(weight.data, Buffer::Allocate(panels * PanelBytes(dtype, weight.k),
                                                        MemoryTag::kWeights, &context->ledger));
  const int64_t block = kPanelColumns * weight.k;
  LORICA_ASSIGN_OR_RETURN(Buffer rows,
                          Buffer::Allocate(context->pool.threads() * block * int64_t{sizeof(float)},
                                           MemoryTag::kOther, &context->ledger));
  context->pool.Run([&](const TeamMember& member) {
    float* mine = rows.as<float>().data() + member.thread * block;
    const IndexRange range = SplitRange(panels, member);
    for (int64_t panel = range.begin; panel < range.end; ++panel) {
      const int64_t first = panel * kPanelColumns;
      const int64_t columns = std::min(kPanelColumns, weight.n - first);
      for (int64_t j = 0; j < columns; ++j) {
        source.ReadRow(first + j, {mine + j * weight.k, static_cast<size_t>(weight.k)});
      }
      PackPanel({mine, weight.k, columns, weight.k}, dtype, kPanelColumns,
                weight.data.data() + panel * PanelBytes(dtype, weight.k));
    }
  });
  return weight;
}

}  // namespace lorica::kernels::cpu
