#include "lorica/model/norm_rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lorica::model {
namespace {

void ExpectFrequencies(const RopeConfig& rope, const std::vector<float>& expected) {
  const std::vector<float> found = InverseFrequencies(rope, 16);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    // An ulp, for the power function of another library.
    EXPECT_NEAR(found[i], expected[i], expected[i] * 1.2e-7f) << i;
  }
}

// Expected: LlamaRotaryEmbedding of transformers 5.24, head_dim 16.
TEST(RopeTest, FrequenciesAreThoseOfTransformers) {
  ExpectFrequencies({}, {1.0f, 0.316227764f, 0.100000001f, 0.0316227786f, 0.00999999978f,
                         0.00316227786f, 0.00100000005f, 0.000316227786f});
  RopeConfig linear;
  linear.kind = RopeKind::kLinear;
  linear.factor = 4.0;
  ExpectFrequencies(linear, {0.25f, 0.079056941f, 0.0250000004f, 0.00790569466f, 0.00249999994f,
                             0.000790569466f, 0.000250000012f, 7.90569466e-05f});
  RopeConfig llama3;
  llama3.kind = RopeKind::kLlama3;
  llama3.theta = 500000.0;
  llama3.factor = 8.0;
  llama3.original_max_positions = 8192;
  ExpectFrequencies(llama3, {1.0f, 0.193922758f, 0.0376060307f, 0.00729266508f, 0.000524846022f,
                             3.42810235e-05f, 6.64786967e-06f, 1.28917316e-06f});
}

TEST(RopeTest, DivisorsOfAGgufFileDivide) {
  RopeConfig rope;
  rope.frequency_divisors = {1.0f, 2.0f, 4.0f, 8.0f, 8.0f, 8.0f, 8.0f, 8.0f};
  ExpectFrequencies(rope, {1.0f, 0.158113882f, 0.025f, 0.00395284733f, 0.00125f, 0.000395284733f,
                           0.000125f, 3.95284733e-05f});
}

TEST(RopeTest, TablesHoldEveryPosition) {
  MachineContext context(3);
  auto tables = RopeTables::Create({}, 16, 100, &context);
  ASSERT_TRUE(tables.ok());
  EXPECT_EQ(tables->cos()[0], 1.0f);
  EXPECT_EQ(tables->sin()[7], 0.0f);
  EXPECT_EQ(tables->cos()[99 * 8], static_cast<float>(std::cos(99.0)));
  EXPECT_EQ(tables->sin()[99 * 8], static_cast<float>(std::sin(99.0)));
}

}  // namespace
}  // namespace lorica::model
