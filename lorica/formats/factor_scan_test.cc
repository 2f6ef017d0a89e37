#include "lorica/formats/factor_scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

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

TEST(FactorScan, KnowsZeros) {
  EXPECT_TRUE(ScanF32({0.0f, -0.0f}).all_zero);
  EXPECT_FALSE(ScanF32({0.0f, 1e-45f}).all_zero);
}

}  // namespace
}  // namespace lorica::formats
