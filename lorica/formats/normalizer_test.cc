#include "lorica/formats/normalizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace lorica::formats {
namespace {

TEST(NormalizerTest, NoneLeavesTextAlone) {
  EXPECT_EQ(Normalize(Normalizer::kNone, "e\u0301"), "e\u0301");
}

TEST(NormalizerTest, NfcComposes) {
  EXPECT_EQ(Normalize(Normalizer::kNfc, "plain"), "plain");
  EXPECT_EQ(Normalize(Normalizer::kNfc, "e\u0301x"), "\u00E9x");
  EXPECT_EQ(Normalize(Normalizer::kNfc, "\u212B"), "\u00C5");  // ANGSTROM SIGN
  EXPECT_EQ(Normalize(Normalizer::kNfc, "\u1100\u1161\u11A8"), "\uAC01");
  // Marks come into order first: dot below (220) before dot above (230).
  EXPECT_EQ(Normalize(Normalizer::kNfc, "s\u0307\u0323"), "\u1E69");
  // A composition exclusion stays apart.
  EXPECT_EQ(Normalize(Normalizer::kNfc, "\u0958"), "\u0915\u093C");
}

TEST(NormalizerTest, LongRunsOfMarksAreNotQuadratic) {
  std::string text = "a";
  for (int i = 0; i < 200'000; ++i) text += "\u0301\u0316";
  const auto start = std::chrono::steady_clock::now();
  const std::string out = Normalize(Normalizer::kNfc, text);
  // Quadratic sorting takes minutes; this takes some tens of milliseconds.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_EQ(out.substr(0, 4), "\u00E1\u0316");
  EXPECT_EQ(out.size(), text.size() - 1);
}

}  // namespace
}  // namespace lorica::formats
