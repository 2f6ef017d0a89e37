#include "lorica/formats/split_pattern.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lorica::formats {
namespace {

// "[match]gap" for each span.
std::string Cut(const SplitPattern& pattern, std::string_view text) {
  std::vector<SplitSpan> spans;
  const Status status = pattern.Cut(text, &spans);
  if (!status.ok()) return status.ToString();
  std::string out;
  for (const SplitSpan& span : spans) {
    const std::string piece(text.substr(span.begin, span.end - span.begin));
    out += span.match ? "[" + piece + "]" : piece;
  }
  return out;
}

std::string Cut(std::string_view regex, std::string_view text) {
  const auto pattern = SplitPattern::Compile(regex);
  return pattern.ok() ? Cut(*pattern, text) : pattern.status().ToString();
}

TEST(SplitPatternTest, MatchesAndGaps) {
  EXPECT_EQ(Cut(R"(\p{N}{1,3})", "a1234b"), "a[123][4]b");
  EXPECT_EQ(Cut(R"(\p{L}+)", "né 罗马"), "[né] [罗马]");
  EXPECT_EQ(Cut("x", ""), "");
  EXPECT_EQ(Cut("x*", "axxb"), "[]a[xx]b[]");
  EXPECT_EQ(Cut("(?i:'s)", "'S'\u017F"), "['S]['\u017F]");
}

TEST(SplitPatternTest, MeansWhatOnigurumaMeans) {
  EXPECT_EQ(Cut(R"(\s)", "\u180E\u0085\u3000"), "\u180E[\u0085][\u3000]");
  EXPECT_EQ(Cut(R"(\S+)", "a\u180E b"), "[a\u180E] [b]");
  EXPECT_EQ(Cut(R"([^\s\p{L}]+)", "a-\u180E-b "), "a[-\u180E-]b ");
  EXPECT_EQ(Cut(R"([\S])", "a "), "[a] ");
  EXPECT_EQ(Cut(R"(\v)", "\x0B\x0C"), "[\x0B]\x0C");
  EXPECT_EQ(Cut(R"(\u00e9)", "é"), "[é]");
  EXPECT_EQ(Cut("^b", "a\nb"), "a\n[b]");  // lines, not the text
  EXPECT_EQ(Cut(".", "\r\n"), "[\r]\n");
}

TEST(SplitPatternTest, RefusesWhatTheEnginesReadDifferently) {
  for (const std::string_view regex :
       {R"(\w+)", R"(\bx)", R"(\h)", R"(\Kx)", R"((a)\1)", "[a[b]]", "[a&&b]", "[[:alpha:]]",
        "(?m:.)", "(?<name>x)", "(?P<n>x)", "(*UCP)x", "[]a]", "(?R)", R"(\Ra)"}) {
    const auto pattern = SplitPattern::Compile(regex);
    ASSERT_FALSE(pattern.ok()) << regex;
    EXPECT_EQ(pattern.status().code(), StatusCode::kUnimplemented) << regex;
  }
  EXPECT_EQ(Cut(R"(\w+)", ""),
            R"(UNIMPLEMENTED: the pattern "\w+": the escape "\w" is not served)");
  for (const std::string_view regex : {"(a", "a\\", "[a", "*", R"(\p{Nope})", R"(\u12)"}) {
    const auto pattern = SplitPattern::Compile(regex);
    ASSERT_FALSE(pattern.ok()) << regex;
    EXPECT_EQ(pattern.status().code(), StatusCode::kInvalidArgument) << regex;
  }
}

TEST(SplitPatternTest, ARunawayPatternEnds) {
  const auto pattern = SplitPattern::Compile("(a|aa)+$");
  ASSERT_TRUE(pattern.ok());
  std::vector<SplitSpan> spans;
  const Status status = pattern->Cut(std::string(5000, 'a') + "b", &spans);
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange) << status.ToString();
}

TEST(SplitPatternTest, ADeepMatchLeavesTheSmallStack) {
  const auto pattern = SplitPattern::Compile("(?:a|b)*c");
  ASSERT_TRUE(pattern.ok());
  const std::string text = std::string(100'000, 'a') + "c";
  EXPECT_EQ(Cut(*pattern, text), "[" + text + "]");
}

TEST(SplitPatternTest, LiteralsAreNoRegex) {
  EXPECT_EQ(Cut(SplitPattern::Literal(".."), "a...b"), "a[..].b");
  EXPECT_EQ(Cut(SplitPattern::Literal(""), "ab"), "ab");
}

}  // namespace
}  // namespace lorica::formats
