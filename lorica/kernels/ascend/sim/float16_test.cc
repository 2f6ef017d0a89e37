// half and bf16 against a slow reference: all values, all midpoints and their neighbours.
#include "lorica/kernels/ascend/sim/float16.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lorica::ascend {
namespace {

double HalfReference(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const double mantissa = bits & 1023;
  const double value =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}
bool HalfIsNan(uint16_t bits) { return (bits & 0x7FFF) > 0x7C00; }

TEST(Float16Test, EveryHalfGoesToFloatExactlyAndBack) {
  for (int i = 0; i < 65536; ++i) {
    const uint16_t bits = static_cast<uint16_t>(i);
    const float value = HalfBitsToFloat(bits);
    if (HalfIsNan(bits)) {
      ASSERT_TRUE(std::isnan(value));
      ASSERT_TRUE(HalfIsNan(FloatToHalfBits(value)));
      continue;
    }
    if ((bits & 0x7FFF) != 0x7C00) {
      ASSERT_EQ(static_cast<double>(value), HalfReference(bits));
    }
    ASSERT_EQ(FloatToHalfBits(value), bits);
    ASSERT_EQ(RoundToHalfBits(value, Rounding::kRint), bits);
    ASSERT_EQ(RoundToHalfBits(value, Rounding::kFloor), bits);
  }
}

TEST(Float16Test, EveryMidpointOfHalfGoesToEven) {
  for (int i = 0; i < 0x7C00; ++i) {
    const uint16_t low = static_cast<uint16_t>(i);
    const uint16_t high = static_cast<uint16_t>(i + 1);
    const double top = i + 1 == 0x7C00 ? 65536.0 : HalfReference(high);
    const float middle = static_cast<float>((HalfReference(low) + top) / 2);
    const uint16_t even = (low & 1) == 0 ? low : high;
    ASSERT_EQ(FloatToHalfBits(middle), even) << i;
    ASSERT_EQ(FloatToHalfBits(std::nextafterf(middle, 0.0f)), low) << i;
    ASSERT_EQ(FloatToHalfBits(std::nextafterf(middle, 1e9f)), high) << i;
    ASSERT_EQ(FloatToHalfBits(-middle), even | 0x8000);
    ASSERT_EQ(RoundToHalfBits(middle, Rounding::kFloor), low);
    ASSERT_EQ(RoundToHalfBits(middle, Rounding::kCeil), high);
    ASSERT_EQ(RoundToHalfBits(-middle, Rounding::kTrunc), low | 0x8000);
    ASSERT_EQ(RoundToHalfBits(middle, Rounding::kRound), high);
    ASSERT_EQ(RoundToHalfBits(middle, Rounding::kOdd), (low & 1) != 0 ? low : high);
  }
}

TEST(Float16Test, EveryBf16AndItsMidpoint) {
  for (uint32_t i = 0; i < 0x7F80; ++i) {
    const float value = Bf16BitsToFloat(static_cast<uint16_t>(i));
    ASSERT_EQ(FloatToBf16Bits(value), i);
    const float middle = BitsFloat(i << 16 | 0x8000u);
    const uint16_t even = static_cast<uint16_t>((i & 1) == 0 ? i : i + 1);
    ASSERT_EQ(FloatToBf16Bits(middle), even);
    ASSERT_EQ(FloatToBf16Bits(-middle), even | 0x8000);
    ASSERT_EQ(FloatToBf16Bits(BitsFloat(i << 16 | 0x7FFFu)), i);
    ASSERT_EQ(FloatToBf16Bits(BitsFloat(i << 16 | 0x8001u)), i + 1);
    ASSERT_EQ(RoundToBf16Bits(middle, Rounding::kRint), even);
    ASSERT_EQ(RoundToBf16Bits(middle, Rounding::kFloor), i);
  }
  EXPECT_TRUE(std::isnan(Bf16BitsToFloat(FloatToBf16Bits(std::nanf("")))));
  EXPECT_TRUE(std::isinf(Bf16BitsToFloat(FloatToBf16Bits(INFINITY))));
}

}  // namespace
}  // namespace lorica::ascend
