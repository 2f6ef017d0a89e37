#include "lorica/engine/stop_checker.h"

#include <gtest/gtest.h>
// Behind gtest.
#include <rapidcheck/gtest.h>

namespace lorica::engine {
namespace {

TEST(StopStrings, HoldsBackWhatMayBecomeAStop) {
  StopStrings strings({"STOP"}, false);
  EXPECT_EQ(strings.Push("abS", true).text, "ab");
  EXPECT_EQ(strings.Push("T", true).text, "");
  EXPECT_EQ(strings.Push("x", true).text, "STx");  // it did not
  const StopStrings::Outcome outcome = strings.Push("y STOP z", true);
  EXPECT_EQ(outcome.text, "y ");
  EXPECT_EQ(outcome.matched, "STOP");
  EXPECT_EQ(strings.Flush(), "");
}

TEST(StopStrings, AcrossPieces) {
  StopStrings strings({"\n\nUser:"}, false);
  EXPECT_EQ(strings.Push("fine.\n", true).text, "fine.");
  EXPECT_EQ(strings.Push("\n", true).text, "");
  EXPECT_EQ(strings.Push("\nUs", true).text, "\n");  // the stop may begin one newline later
  EXPECT_EQ(strings.Push("er:", true).matched, "\n\nUser:");
}

TEST(StopStrings, TheFirstToBeginWinsAndIncludeKeepsIt) {
  StopStrings strings({"cd", "bcd", "b"}, true);
  const StopStrings::Outcome outcome = strings.Push("abcde", true);
  EXPECT_EQ(outcome.matched, "bcd");  // begins with "b" too, and is first in the list
  EXPECT_EQ(outcome.text, "abcd");
}

TEST(StopStrings, OrdinaryTextBeforeMinTokens) {
  StopStrings strings({"ab", "xabz"}, false);
  EXPECT_EQ(strings.Push("ab", false).text, "ab");
  EXPECT_EQ(strings.Push("xab", false).text, "");  // held for xabz
  // "ab" was completed when it did not count; only what ends in the new text does now.
  EXPECT_EQ(strings.Push("q", true).text, "xabq");
  EXPECT_EQ(strings.Push("ab", true).matched, "ab");
}

TEST(StopStrings, FlushReleasesTheRest) {
  StopStrings strings({"STOP"}, false);
  EXPECT_EQ(strings.Push("xSTO", true).text, "x");
  EXPECT_EQ(strings.Flush(), "STO");
}

// However the text is cut, the answer is that of the whole.
TEST(StopStrings, CutsDoNotMatter) {
  EXPECT_TRUE(rc::check([] {
    const auto letters = rc::gen::container<std::string>(rc::gen::element('a', 'b', 'c'));
    const std::string text = *letters;
    const auto stops = *rc::gen::container<std::vector<std::string>>(2, rc::gen::nonEmpty(letters));
    StopStrings strings(stops, false);
    std::string got;
    std::string matched;
    size_t end = std::string::npos;
    for (size_t at = 0; at < text.size() && matched.empty();) {
      const auto size = static_cast<size_t>(*rc::gen::inRange(1, 5));
      const StopStrings::Outcome outcome = strings.Push(text.substr(at, size), true);
      got += outcome.text;
      matched = outcome.matched;
      at += size;
      end = at;
    }
    if (matched.empty()) {
      got += strings.Flush();
      RC_ASSERT(got == text);
      for (const std::string& stop : stops) RC_ASSERT(text.find(stop) == std::string::npos);
    } else {
      // The text before the first stop string of the part that was read.
      size_t first = std::string::npos;
      for (const std::string& stop : stops) first = std::min(first, text.substr(0, end).find(stop));
      RC_ASSERT(got == text.substr(0, first));
    }
  }));
}

SamplingParams Params(int32_t max_tokens) {
  SamplingParams params;
  params.max_tokens = max_tokens;
  return params;
}

TEST(StopChecker, Length) {
  StopChecker checker(Params(2), {9}, nullptr);
  EXPECT_EQ(checker.Accept(1).finish, FinishReason::kNone);
  EXPECT_EQ(checker.Accept(1).finish, FinishReason::kLength);
}

TEST(StopChecker, EndAndStopTokens) {
  SamplingParams params = Params(5);
  params.stop_token_ids = {4, 3};
  StopChecker end(params, {9}, nullptr);
  EXPECT_EQ(end.ending_tokens().size(), 3u);
  const StopChecker::Verdict at_end = end.Accept(9);
  EXPECT_EQ(at_end.finish, FinishReason::kStop);
  EXPECT_EQ(at_end.stop_reason, "");
  StopChecker stop(params, {9}, nullptr);
  const StopChecker::Verdict at_stop = stop.Accept(3);
  EXPECT_EQ(at_stop.finish, FinishReason::kStop);
  EXPECT_EQ(at_stop.stop_reason, "token_id:3");
  params.ignore_eos = true;
  StopChecker ignoring(params, {9}, nullptr);
  EXPECT_EQ(ignoring.Accept(9).finish, FinishReason::kNone);
}

TEST(StopChecker, AStopTokenAtTheLengthIsAStop) {
  StopChecker checker(Params(1), {9}, nullptr);
  EXPECT_EQ(checker.Accept(9).finish, FinishReason::kStop);
}

}  // namespace
}  // namespace lorica::engine
