#include "lorica/engine/drafter.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace lorica::engine {
namespace {

// What speculation does to one sequence that decodes alone.
struct Outcome {
  int64_t steps = 0;
  int64_t drafted = 0;
  int64_t right = 0;
};

Outcome Decode(const std::vector<int32_t>& text, size_t prompt_size, int32_t other_rows = 0) {
  Drafter drafter(static_cast<int64_t>(text.size()));
  Outcome outcome;
  for (size_t size = prompt_size; size < text.size();) {
    DraftWorth worth(1 + other_rows);
    const auto most = static_cast<int32_t>(text.size() - size - 1);
    const auto draft = drafter.Propose(std::span(text).first(size), most, &worth);
    size_t right = 0;
    while (right < draft.size() && draft[right] == text[size + right]) ++right;
    if (!draft.empty()) {
      drafter.Learn(static_cast<int32_t>(draft.size()), static_cast<int32_t>(right));
    }
    outcome.drafted += static_cast<int64_t>(draft.size());
    outcome.right += static_cast<int64_t>(right);
    ++outcome.steps;
    size += right + 1;
  }
  return outcome;
}

// 0, 1, 2, ... in which `phrase` comes again every `every` tokens.
std::vector<int32_t> Counting(int32_t count, int32_t every, const std::vector<int32_t>& phrase) {
  std::vector<int32_t> text;
  for (int32_t i = 0; static_cast<int32_t>(text.size()) < count; ++i) {
    text.push_back(1000 + i);
    if (i % every == 0) text.insert(text.end(), phrase.begin(), phrase.end());
  }
  return text;
}

TEST(Drafter, ACopyIsGuessedAlmostWhole) {
  std::vector<int32_t> text = Counting(300, 1000, {});
  text.insert(text.end(), text.begin(), text.end());
  const Outcome outcome = Decode(text, 303);
  EXPECT_EQ(outcome.right, outcome.drafted);
  EXPECT_LT(outcome.steps, 300 / 8);
}

TEST(Drafter, ALoopIsGuessedPastTheEndOfTheText) {
  std::vector<int32_t> text;
  for (int i = 0; i < 400; ++i) text.push_back(i % 3);
  const Outcome outcome = Decode(text, 6);
  EXPECT_EQ(outcome.right, outcome.drafted);
  EXPECT_LT(outcome.steps, 400 / 8);
}

TEST(Drafter, TextWithoutRepeatsCostsNothing) {
  EXPECT_EQ(Decode(Counting(2000, 5000, {}), 10).drafted, 0);
}

// The worst that can come: what stood before always goes on otherwise.
TEST(Drafter, WrongGuessesEnd) {
  const std::vector<int32_t> text = Counting(4000, 1, {1, 2});
  const Outcome alone = Decode(text, 10);
  EXPECT_EQ(alone.right, 0);
  EXPECT_LT(alone.drafted, 4000 / 25);
}

TEST(Drafter, AFullStepWantsBetterGuesses) {
  std::vector<int32_t> text = Counting(300, 1000, {});
  text.insert(text.end(), text.begin(), text.end());
  const Outcome alone = Decode(text, 303);
  const Outcome beside = Decode(text, 303, 60);
  EXPECT_LT(beside.drafted, alone.drafted);
}

}  // namespace
}  // namespace lorica::engine
