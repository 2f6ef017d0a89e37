#include "lorica/formats/utf8.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

namespace lorica::formats {
namespace {

TEST(Utf8Test, FindsTheFirstBadByte) {
  EXPECT_EQ(FindInvalidUtf8(""), std::nullopt);
  EXPECT_EQ(FindInvalidUtf8("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"), std::nullopt);
  EXPECT_EQ(FindInvalidUtf8("\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF"), std::nullopt);
  EXPECT_EQ(FindInvalidUtf8("ab\xC3"), 2u);
  EXPECT_EQ(FindInvalidUtf8("\x80"), 0u);
  EXPECT_EQ(FindInvalidUtf8("a\xC0\x80"), 1u);          // overlong
  EXPECT_EQ(FindInvalidUtf8("a\xE0\x9F\xBF"), 1u);      // overlong
  EXPECT_EQ(FindInvalidUtf8("a\xED\xA0\x80"), 1u);      // surrogate
  EXPECT_EQ(FindInvalidUtf8("a\xF4\x90\x80\x80"), 1u);  // above U+10FFFF
  EXPECT_EQ(FindInvalidUtf8("a\xF5"), 1u);
}

// The example of section 3.9 of the Unicode standard, "U+FFFD substitution of maximal subparts".
TEST(Utf8Test, ReplacesMaximalParts) {
  EXPECT_EQ(ReplaceInvalidUtf8("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a\uFFFD\uFFFD\uFFFD"
            "b\uFFFD"
            "c\uFFFD\uFFFD"
            "d");
  EXPECT_EQ(ReplaceInvalidUtf8("x\xF0\x9F\x98"), "x\uFFFD");
}

TEST(Utf8Test, CodePointsRoundTrip) {
  EXPECT_TRUE(rc::check("AppendUtf8 and CodePointAt agree", [] {
    const auto value = *rc::gen::inRange<uint32_t>(0, 0x110000);
    if (value >= 0xD800 && value < 0xE000) return;
    std::string text = "x";
    AppendUtf8(value, &text);
    ASSERT_EQ(FindInvalidUtf8(text), std::nullopt);
    const CodePoint point = CodePointAt(text, 1);
    EXPECT_EQ(point.value, value);
    EXPECT_EQ(static_cast<size_t>(point.bytes) + 1, text.size());
  }));
}

TEST(Utf8Test, StreamHoldsBackAnUnfinishedCharacter) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Push("a\xF0\x9F"), "a");
  EXPECT_FALSE(stream.idle());
  EXPECT_EQ(stream.Push("\x98"), "");
  EXPECT_EQ(stream.Push("\x80z"), "\U0001F600z");
  EXPECT_TRUE(stream.idle());
  EXPECT_EQ(stream.Push("\xE2\x82"), "");
  EXPECT_EQ(stream.Push("b"),
            "\uFFFD"
            "b");
  EXPECT_EQ(stream.Push("\xE2"), "");
  EXPECT_EQ(stream.Flush(), "\uFFFD");
  EXPECT_EQ(stream.Flush(), "");
}

TEST(Utf8Test, CutsDoNotChangeTheText) {
  EXPECT_TRUE(rc::check("pieces give what the whole gives", [] {
    // Lead and trail bytes are frequent, so that sequences of every kind come up.
    const auto byte = rc::gen::element<uint8_t>(0x41, 0x80, 0x9F, 0xA0, 0xBF, 0xC2, 0xE0, 0xE2,
                                                0xED, 0xF0, 0xF1, 0xF4, 0xFF, 0x90);
    const auto bytes = *rc::gen::container<std::vector<uint8_t>>(byte);
    const std::string text(bytes.begin(), bytes.end());
    Utf8Stream stream;
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const auto length = *rc::gen::inRange<size_t>(1, 5);
      const std::string piece = stream.Push(std::string_view(text).substr(at, length));
      EXPECT_EQ(FindInvalidUtf8(piece), std::nullopt);
      out += piece;
      at += length;
    }
    out += stream.Flush();
    EXPECT_EQ(out, ReplaceInvalidUtf8(text));
  }));
}

}  // namespace
}  // namespace lorica::formats
