#include "lorica/kernels/ascend/tile_packer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace lorica::ascend {
namespace {

struct Factors16 {
  std::vector<uint16_t> a, b;
  lora::SiteFactors factors;
};

Factors16 Make(DType dtype, int32_t rank, int64_t k, int64_t n, double scale, float spread) {
  Factors16 f;
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-spread, spread);
  const auto bits = [&](float v) { return dtype == DType::kF16 ? F32ToF16(v) : F32ToBf16(v); };
  for (int64_t i = 0; i < rank * k; ++i) f.a.push_back(bits(uniform(random)));
  for (int64_t i = 0; i < rank * n; ++i) f.b.push_back(bits(uniform(random)));
  f.factors.rank = rank;
  f.factors.shape = {k, n};
  f.factors.a = {reinterpret_cast<const std::byte*>(f.a.data()), dtype};
  f.factors.b = {reinterpret_cast<const std::byte*>(f.b.data()), dtype};
  f.factors.scale = scale;
  return f;
}

TEST(AscendTilePacker, FractalsHoldTheFactorsAndZeroPastTheRank) {
  const AscendTilePacker packer(DType::kF16);
  Factors16 f = Make(DType::kF16, 20, 48, 32, 1.0, 1.0f);
  std::vector<std::byte> tile(static_cast<size_t>(packer.TileBytes(lora::TileShapeOf(f.factors))));
  packer.PackTile(f.factors, 16, tile.data());
  const auto* a = reinterpret_cast<const uint16_t*>(tile.data());
  const auto* b =
      reinterpret_cast<const uint16_t*>(AscendTilePacker::FactorB(tile.data(), f.factors.shape));
  for (size_t r = 0; r < 16; ++r) {
    for (size_t k = 0; k < 48; ++k) {
      const uint16_t want = r < 4 ? f.a[(16 + r) * 48 + k] : 0;
      EXPECT_EQ(a[k / 16 * 256 + r * 16 + k % 16], want);
    }
    for (size_t n = 0; n < 32; ++n) {
      EXPECT_EQ(b[n * 16 + r], r < 4 ? f.b[n * 20 + 16 + r] : 0);
    }
  }
  EXPECT_EQ(AscendTilePacker::Note(tile.data(), f.factors.shape).rounded, 0u);
}

// Powers of two are exact; other scales round each element of B once.
TEST(AscendTilePacker, ScaleIsInB) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const AscendTilePacker packer(dtype);
    for (const double scale : {1.0, 2.0, 0.5, 16.0 / 6, 64 / std::sqrt(32.0)}) {
      Factors16 f = Make(dtype, 16, 16, 256, scale, 1.0f);
      std::vector<std::byte> tile(
          static_cast<size_t>(packer.TileBytes(lora::TileShapeOf(f.factors))));
      packer.PackTile(f.factors, 0, tile.data());
      const TileNote note = AscendTilePacker::Note(tile.data(), f.factors.shape);
      EXPECT_EQ(note.scale, static_cast<float>(scale));
      int exponent = 0;
      if (std::frexp(scale, &exponent) == 0.5) {
        EXPECT_EQ(note.rounded, 0u) << scale;
      } else {
        EXPECT_GT(note.rounded, 0u) << scale;
        EXPECT_LE(note.worst_error, dtype == DType::kF16 ? 0x1p-11 : 0x1p-8);
      }
      std::printf("%s scale %.6f: %u of %d elements rounded, worst relative error %.2e\n",
                  std::string(DTypeName(dtype)).c_str(), scale, note.rounded, 16 * (16 + 256),
                  note.worst_error);
    }
  }
}

TEST(AscendTilePacker, RefusesWithLimitAndFigure) {
  const AscendTilePacker packer(DType::kF16);
  const auto message = [&](const Factors16& f) { return packer.Accepts(f.factors).message(); };
  EXPECT_TRUE(packer.Accepts(Make(DType::kF16, 256, 16, 16, 2.0, 1.0f).factors).ok());
  EXPECT_NE(message(Make(DType::kF16, 257, 16, 16, 1.0, 1.0f)).find("256, "), std::string::npos);
  EXPECT_NE(message(Make(DType::kF16, 8, 24, 16, 1.0, 1.0f)).find("found 24"), std::string::npos);
  EXPECT_NE(message(Make(DType::kF16, 8, 16, 28688, 1.0, 1.0f)).find("found 28688"),
            std::string::npos);
  // Too large, and a power of two that reaches into the subnormals.
  EXPECT_NE(message(Make(DType::kF16, 8, 16, 16, 1e6, 1.0f)).find("lora_B"), std::string::npos);
  EXPECT_NE(message(Make(DType::kF16, 8, 16, 16, 0x1p-12, 0.01f)).find("least normal"),
            std::string::npos);
  // On arch 2002 the scale is not in B.
  const AscendTilePacker on_s(DType::kF16, ScalePlace::kOnS);
  EXPECT_TRUE(on_s.Accepts(Make(DType::kF16, 8, 16, 16, 0x1p-12, 0.01f).factors).ok());
}

// A product of a scale and an element is rounded once, not by way of fp32.
TEST(AscendTilePacker, RoundsOnce) {
  const AscendTilePacker packer(DType::kBF16);
  // 1 + 2^-8 + 2^-40 lies above the middle of two bf16 numbers, but its fp32 is the middle.
  Factors16 f = Make(DType::kBF16, 1, 16, 16, 1 + 0x1p-8 + 0x1p-40, 0.0f);
  f.b[0] = F32ToBf16(1.0f);
  std::vector<std::byte> tile(static_cast<size_t>(packer.TileBytes(lora::TileShapeOf(f.factors))));
  packer.PackTile(f.factors, 0, tile.data());
  const auto* b =
      reinterpret_cast<const uint16_t*>(AscendTilePacker::FactorB(tile.data(), f.factors.shape));
  EXPECT_EQ(Bf16ToF32(b[0]), 1 + 0x1p-7f);
}

}  // namespace
}  // namespace lorica::ascend
