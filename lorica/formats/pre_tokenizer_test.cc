#include "lorica/formats/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace lorica::formats {
namespace {

using Pieces = std::vector<std::string>;

Pieces Cut(std::vector<PreTokenizer::Step> steps, std::string_view text) {
  const auto words = PreTokenizer(std::move(steps)).Cut(text);
  EXPECT_TRUE(words.ok()) << words.status().ToString();
  Pieces pieces;
  for (size_t i = 0; words.ok() && i < words->ranges.size(); ++i) {
    pieces.emplace_back(words->word(i));
  }
  return pieces;
}

Pieces Dashes(SplitBehavior behavior, bool invert = false) {
  return Cut({SplitStep{SplitPattern::Literal("-"), behavior, invert}}, "the-final--countdown-");
}

// The examples that the reference documents for its behaviours.
TEST(PreTokenizerTest, Behaviors) {
  EXPECT_EQ(Dashes(SplitBehavior::kRemoved), (Pieces{"the", "final", "countdown"}));
  EXPECT_EQ(Dashes(SplitBehavior::kIsolated),
            (Pieces{"the", "-", "final", "-", "-", "countdown", "-"}));
  EXPECT_EQ(Dashes(SplitBehavior::kMergedWithPrevious),
            (Pieces{"the-", "final-", "-", "countdown-"}));
  EXPECT_EQ(Dashes(SplitBehavior::kMergedWithNext),
            (Pieces{"the", "-final", "-", "-countdown", "-"}));
  EXPECT_EQ(Dashes(SplitBehavior::kContiguous),
            (Pieces{"the", "-", "final", "--", "countdown", "-"}));
  EXPECT_EQ(Dashes(SplitBehavior::kRemoved, true), (Pieces{"-", "-", "-", "-"}));
}

TEST(PreTokenizerTest, DigitsAreUnicodeNumbers) {
  EXPECT_EQ(Cut({DigitsStep{true}}, "a12\u00BD\u2167b"),
            (Pieces{"a", "1", "2", "\u00BD", "\u2167", "b"}));
  EXPECT_EQ(Cut({DigitsStep{false}}, "a12\u0661b"), (Pieces{"a", "12\u0661", "b"}));
}

TEST(PreTokenizerTest, Gpt2) {
  EXPECT_EQ(Cut({Gpt2Split()}, "Hello  world, I'm 1984\n\n x"),
            (Pieces{"Hello", " ", " world", ",", " I", "'m", " 1984", "\n\n", " x"}));
}

TEST(PreTokenizerTest, DigitsThenGpt2) {
  EXPECT_EQ(Cut({DigitsStep{true}, Gpt2Split()}, "year 1984!"),
            (Pieces{"year", " ", "1", "9", "8", "4", "!"}));
}

TEST(PreTokenizerTest, PrefixSpaceGoesBeforeEachPiece) {
  EXPECT_EQ(Cut({DigitsStep{true}, PrefixSpaceStep{}}, "a1 b"), (Pieces{" a", " 1", " b"}));
}

TEST(PreTokenizerTest, NothingGivesNothing) {
  EXPECT_EQ(Cut({Gpt2Split()}, ""), Pieces{});
  EXPECT_EQ(Cut({}, "a b"), Pieces{"a b"});
}

}  // namespace
}  // namespace lorica::formats
