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

// Bytes of a super-block whose integers walk through all values, d = 0.5, dmin = 2.
std::vector<std::byte> WalkingQ4K() {
  std::vector<std::byte> block = Bytes({0x00, 0x38, 0x00, 0x40});
  // Scales 1 to 8 * 7, minima 63 down: six bits each, cut up as ggml's make_qkx packs them.
  int scale[8], minimum[8];
  for (int j = 0; j < 8; ++j) {
    scale[j] = 7 * (j + 1);
    minimum[j] = 63 - 5 * j;
  }
  for (int j = 0; j < 4; ++j) block.push_back(std::byte(scale[j] | (scale[j + 4] >> 4) << 6));
  for (int j = 0; j < 4; ++j) block.push_back(std::byte(minimum[j] | (minimum[j + 4] >> 4) << 6));
  for (int j = 4; j < 8; ++j) {
    block.push_back(std::byte((scale[j] & 15) | (minimum[j] & 15) << 4));
  }
  // Weight 64 c + i has the low nibble of byte 32 c + i, weight 64 c + 32 + i the high one.
  for (int c = 0; c < 4; ++c) {
    for (int i = 0; i < 32; ++i) {
      const int low = (3 * (64 * c + i) + c) % 16;
      const int high = (3 * (64 * c + 32 + i) + c) % 16;
      block.push_back(std::byte(low | high << 4));
    }
  }
  return block;
}

TEST(DType, Q4KDecodesAsGgmlDefinesIt) {
  const std::vector<std::byte> block = WalkingQ4K();
  ASSERT_EQ(block.size(), 144u);
  std::vector<float> out(256);
  DequantizeRow(DType::kQ4_K, block.data(), 256, out.data());
  for (int w = 0; w < 256; ++w) {
    const int j = w / 32;
    const int q = (3 * w + w / 64) % 16;
    const auto scale = static_cast<float>(7 * (j + 1));
    const auto minimum = static_cast<float>(63 - 5 * j);
    EXPECT_EQ(out[static_cast<size_t>(w)], 0.5f * scale * static_cast<float>(q) - 2.0f * minimum)
        << w;
  }
}

TEST(DType, Q6KDecodesAsGgmlDefinesIt) {
  // q of weight w, unsigned; the scale of weights 16 s to 16 s + 15 is 17 s - 128.
  const auto q = [](int w) { return (5 * w + w / 64) % 64; };
  std::vector<std::byte> block;
  for (int half = 0; half < 256; half += 128) {
    for (int i = 0; i < 64; ++i) {
      block.push_back(std::byte((q(half + i) & 15) | (q(half + 64 + i) & 15) << 4));
    }
  }
  for (int half = 0; half < 256; half += 128) {
    for (int i = 0; i < 32; ++i) {
      int bits = 0;
      for (int quarter = 0; quarter < 4; ++quarter) {
        bits |= (q(half + 32 * quarter + i) >> 4) << 2 * quarter;
      }
      block.push_back(std::byte(bits));
    }
  }
  for (int s = 0; s < 16; ++s) block.push_back(static_cast<std::byte>(17 * s - 128));
  block.insert(block.end(), {std::byte{0x00}, std::byte{0x38}});
  ASSERT_EQ(block.size(), 210u);
  std::vector<float> out(256);
  DequantizeRow(DType::kQ6_K, block.data(), 256, out.data());
  for (int w = 0; w < 256; ++w) {
    const auto scale = static_cast<float>(17 * (w / 16) - 128);
    EXPECT_EQ(out[static_cast<size_t>(w)], 0.5f * scale * static_cast<float>(q(w) - 32)) << w;
  }
}

TEST(DType, SizesCountWholeBlocks) {
  EXPECT_EQ(ElementsToBytes(DType::kQ4_0, 64), 36);
  EXPECT_EQ(ElementsToBytes(DType::kQ4_1, 64), 40);
  EXPECT_EQ(ElementsToBytes(DType::kQ8_0, 64), 68);
  EXPECT_EQ(ElementsToBytes(DType::kQ4_K, 512), 288);
  EXPECT_EQ(ElementsToBytes(DType::kQ6_K, 512), 420);
  EXPECT_EQ(ElementsToBytes(DType::kBF16, 3), 6);
}

}  // namespace
}  // namespace lorica
