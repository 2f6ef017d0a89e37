#include "lorica/formats/factor_scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "lorica/base/test_chances.h"
#include "lorica/formats/test_files.h"

namespace lorica::formats {
namespace {

using testing::TestTensor;

FactorScan Scan(const TestTensor& tensor, DType dtype) {
  // One byte off, so that no alignment is taken for granted.
  const std::string bytes = "x" + tensor.bytes;
  return ScanFactor({reinterpret_cast<const std::byte*>(bytes.data()) + 1, dtype, tensor.shape});
}

FactorScan ScanF32(const std::vector<float>& values) {
  return Scan(testing::F32Tensor("t", {1, static_cast<int64_t>(values.size())}, values),
              DType::kF32);
}

TEST(FactorScan, FindsTheNarrowestExactType) {
  EXPECT_EQ(ScanF32({1.0f, -0.5f, 0x1p127f, -0.0f}).narrowest, DType::kBF16);
  EXPECT_EQ(ScanF32({1.0f, 1.0009765625f}).narrowest, DType::kF16) << "10 bits of mantissa";
  EXPECT_EQ(ScanF32({5.9604645e-8f, 1.0009765625f}).narrowest, DType::kF16) << "an f16 subnormal";
  EXPECT_EQ(ScanF32({1.0f, 1.0f + 0x1p-20f}).narrowest, DType::kF32);
  EXPECT_EQ(ScanF32({1.0009765625f, 70000.0f}).narrowest, DType::kF32) << "beyond f16's range";
  EXPECT_EQ(ScanF32({1.0009765625f, 1.0e-20f}).narrowest, DType::kF32) << "below f16's range";
  EXPECT_EQ(Scan(testing::F16Tensor("t", {1, 2}, {1.0f, 0.25f}), DType::kF16).narrowest,
            DType::kBF16);
  EXPECT_EQ(Scan(testing::F16Tensor("t", {1, 2}, {1.0f, 1.0009765625f}), DType::kF16).narrowest,
            DType::kF16);
  EXPECT_EQ(Scan(testing::Bf16Tensor("t", {1, 2}, {1.0f, 1e30f}), DType::kBF16).narrowest,
            DType::kBF16);
}

TEST(FactorScan, FindsTheFirstValueThatIsNotFinite) {
  std::vector<float> values(5000, 0.5f);
  EXPECT_FALSE(ScanF32(values).not_finite);
  values[4999] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(ScanF32(values).not_finite, 4999);
  values[2100] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(ScanF32(values).not_finite, 2100);
  EXPECT_EQ(Scan(testing::F16Tensor("t", {1, 2}, {1.0f, INFINITY}), DType::kF16).not_finite, 1);
  EXPECT_EQ(Scan(testing::Bf16Tensor("t", {1, 2}, {NAN, 1.0f}), DType::kBF16).not_finite, 0);
}

// bf16 goes a way of its own; it says what f32 says of the same values.
TEST(FactorScan, EveryTypeSaysTheSameOfTheSameValues) {
  std::vector<std::vector<float>> cases(6, std::vector<float>(5000, 0.5f));
  cases[1][4321] = INFINITY;
  cases[2][4999] = -std::numeric_limits<float>::quiet_NaN();
  cases[3][4999] = cases[3][2048] = -INFINITY;
  cases[4].assign(5000, -0.0f);
  cases[5].assign(5000, 0.0f);
  cases[5][4999] = -0x1p-14f;
  for (const std::vector<float>& values : cases) {
    const FactorScan expected = ScanF32(values);
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      const FactorScan scan =
          Scan(dtype == DType::kBF16 ? testing::Bf16Tensor("t", {1, 5000}, values)
                                     : testing::F16Tensor("t", {1, 5000}, values),
               dtype);
      EXPECT_EQ(scan.not_finite, expected.not_finite);
      EXPECT_EQ(scan.all_zero, expected.all_zero);
      EXPECT_EQ(scan.narrowest, DType::kBF16);
    }
  }
}

TEST(FactorScan, GivesWay) {
  const std::vector<std::byte> zeros(size_t{4} << 20);
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    const int64_t elements = static_cast<int64_t>(zeros.size()) / ElementsToBytes(dtype, 1);
    const auto scan = [&] {
      EXPECT_TRUE(ScanFactor({zeros.data(), dtype, {1, elements}}).all_zero);
    };
    EXPECT_GE(ChancesIn(scan), elements / (32 << 10)) << DTypeName(dtype);
  }
}

TEST(FactorScan, KnowsZeros) {
  EXPECT_TRUE(ScanF32({0.0f, -0.0f}).all_zero);
  EXPECT_FALSE(ScanF32({0.0f, 1e-45f}).all_zero);
}

}  // namespace
}  // namespace lorica::formats
