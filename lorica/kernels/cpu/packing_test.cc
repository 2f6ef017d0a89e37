#include "lorica/kernels/cpu/packing.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <vector>

namespace lorica::kernels::cpu {
namespace {

std::vector<std::byte> RandomFactor(DType dtype, int64_t elements) {
  std::vector<std::byte> bytes(static_cast<size_t>(ElementsToBytes(dtype, elements)));
  for (int64_t i = 0; i < elements; ++i) {
    const float value = static_cast<float>(*rc::gen::inRange(-255, 256)) / 8.0f;
    std::byte* at = bytes.data() + ElementsToBytes(dtype, i);
    if (dtype == DType::kF32) {
      std::memcpy(at, &value, sizeof(value));
    } else {
      const uint16_t half = dtype == DType::kBF16 ? F32ToBf16(value) : F32ToF16(value);
      std::memcpy(at, &half, sizeof(half));
    }
  }
  return bytes;
}

float Element(const lora::Factor& factor, int64_t i) {
  float value = 0.0f;
  DequantizeRow(factor.dtype, factor.data + ElementsToBytes(factor.dtype, i), 1, &value);
  return value;
}

RC_GTEST_PROP(CpuTilePacker, KeepsEachValueAndZeroesWhatIsPadding, ()) {
  const auto any_dtype = rc::gen::element(DType::kBF16, DType::kF16, DType::kF32);
  lora::SiteFactors factors;
  factors.rank = *rc::gen::inRange(1, 20);
  factors.shape = {*rc::gen::inRange(1, 80), *rc::gen::inRange(1, 40)};
  const auto [k, n] = factors.shape;
  const DType a_dtype = *any_dtype;
  const DType b_dtype = *any_dtype;
  const std::vector<std::byte> a = RandomFactor(a_dtype, factors.rank * k);
  const std::vector<std::byte> b = RandomFactor(b_dtype, factors.rank * n);
  factors.a = {a.data(), a_dtype};
  factors.b = {b.data(), b_dtype};
  const DType dtype = lora::TileDType(factors);

  const CpuTilePacker packer;
  for (int32_t first = 0; first < factors.rank; first += kTileRanks) {
    const auto bytes = static_cast<size_t>(packer.TileBytes(lora::TileShapeOf(factors)));
    std::vector<std::byte> tile(bytes, std::byte{0x5a});  // as what lay there before
    packer.PackTile(factors, first, tile.data());
    for (int64_t r = 0; r < kTileRanks; ++r) {
      const bool there = first + r < factors.rank;
      for (int64_t i = 0; i < 2 * Pairs(k); ++i) {
        const float want = there && i < k ? Element(factors.a, (first + r) * k + i) : 0.0f;
        RC_ASSERT(PanelElement(dtype, tile.data(), kTileRanks, r, i) == want);
      }
      for (int64_t j = 0; j < Panels(n) * kPanelColumns; ++j) {
        const std::byte* panel =
            tile.data() + TileABytes(dtype, k) + j / kPanelColumns * TileBPanelBytes(dtype);
        const float want = there && j < n ? Element(factors.b, j * factors.rank + first + r) : 0.0f;
        RC_ASSERT(PanelElement(dtype, panel, kPanelColumns, j % kPanelColumns, r) == want);
      }
    }
  }
}

}  // namespace
}  // namespace lorica::kernels::cpu
