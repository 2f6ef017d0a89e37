#include "lorica/base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace lorica {
namespace {

TEST(DType, EveryHalfSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = F16ToF32(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(F16ToF32(F32ToF16(value))));
    } else {
      EXPECT_EQ(F32ToF16(value), half);
    }
  }
}

TEST(DType, HalfRoundsToNearestEven) {
  EXPECT_EQ(F32ToF16(1.0f + 0x1p-11f), 0x3c00);             // tie, to even
  EXPECT_EQ(F32ToF16(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01);  // over the tie
  EXPECT_EQ(F32ToF16(1.0f + 3 * 0x1p-11f), 0x3c02);         // tie, to even, upwards
  EXPECT_EQ(F32ToF16(65519.0f), 0x7bff);
  EXPECT_EQ(F32ToF16(65520.0f), 0x7c00);
  EXPECT_EQ(F32ToF16(0x1p-25f), 0);
  EXPECT_EQ(F32ToF16(0x1.8p-25f), 1);
  EXPECT_EQ(F32ToF16(-0x1p-24f), 0x8001);
}

TEST(DType, Bf16RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(F32ToBf16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(F32ToBf16(1.0f + 3 * 0x1p-8f), 0x3f82);
  EXPECT_EQ(F32ToBf16(3.4e38f), 0x7f80);
  EXPECT_TRUE(std::isnan(Bf16ToF32(F32ToBf16(std::nanf("")))));
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) {
    EXPECT_EQ(F32ToBf16(Bf16ToF32(static_cast<uint16_t>(bits))), bits);
  }
}

std::vector<std::byte> Bytes(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(DType, BlocksDecodeAsGgmlDefinesThem) {
  // d = 0.5 (0x3800), m = -2 (0xc000).
  std::vector<std::byte> q8 = Bytes({0x00, 0x38});
  for (int i = 0; i < 32; ++i) q8.push_back(static_cast<std::byte>(static_cast<int8_t>(i - 16)));
  std::vector<float> out(32);
  DequantizeRow(DType::kQ8_0, q8.data(), 32, out.data());
  for (int i = 0; i < 32; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], 0.5f * (i - 16));

  std::vector<std::byte> q40 = Bytes({0x00, 0x38});
  std::vector<std::byte> q41 = Bytes({0x00, 0x38, 0x00, 0xc0});
  for (int j = 0; j < 16; ++j) {
    q40.push_back(static_cast<std::byte>(j | ((15 - j) << 4)));
    q41.push_back(static_cast<std::byte>(j | ((15 - j) << 4)));
  }
  DequantizeRow(DType::kQ4_0, q40.data(), 32, out.data());
  EXPECT_EQ(out[3], 0.5f * (3 - 8));
  EXPECT_EQ(out[16 + 3], 0.5f * (12 - 8));
  DequantizeRow(DType::kQ4_1, q41.data(), 32, out.data());
  EXPECT_EQ(out[3], 0.5f * 3 - 2);
  EXPECT_EQ(out[16 + 3], 0.5f * 12 - 2);
}

TEST(DType, SizesCountWholeBlocks) {
  EXPECT_EQ(ElementsToBytes(DType::kQ4_0, 64), 36);
  EXPECT_EQ(ElementsToBytes(DType::kQ4_1, 64), 40);
  EXPECT_EQ(ElementsToBytes(DType::kQ8_0, 64), 68);
  EXPECT_EQ(ElementsToBytes(DType::kBF16, 3), 6);
}

}  // namespace
}  // namespace lorica
