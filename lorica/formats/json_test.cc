#include "lorica/formats/json.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <fstream>

namespace lorica::formats {
namespace {

std::string ErrorOf(std::string_view text, const JsonLimits& limits = {}) {
  const Result<boost::json::value> value = ParseJson(text, limits);
  return value.ok() ? "no error" : value.status().ToString();
}

TEST(ParseJson, ReadsEveryKindOfValue) {
  const Result<boost::json::value> value = ParseJson(
      " {\"a\": [1, -2, 18446744073709551615, 1.5, true, null, \"\\u00e9\\u0000\"], \"b\": {}}\n");
  ASSERT_TRUE(value.ok()) << value.status().ToString();
  const boost::json::array& a = value->at("a").get_array();
  EXPECT_EQ(a[0].get_int64(), 1);
  EXPECT_EQ(a[1].get_int64(), -2);
  EXPECT_EQ(a[2].get_uint64(), 18446744073709551615u);
  EXPECT_EQ(a[3].get_double(), 1.5);
  EXPECT_EQ(a[4].get_bool(), true);
  EXPECT_TRUE(a[5].is_null());
  EXPECT_EQ(std::string_view(a[6].get_string()), std::string_view("\xC3\xA9\0", 3));
  EXPECT_TRUE(value->at("b").get_object().empty());
}

TEST(ParseJson, ReadsALongStringAndKeyInOnePiece) {
  const std::string text(100'000, 'x');
  const Result<boost::json::value> value =
      ParseJson("{\"k" + text + "\\n\": \"" + text + "\\n" + text + "\"}");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->get_object().begin()->key(), "k" + text + "\n");
  EXPECT_EQ(value->get_object().begin()->value().get_string(), text + "\n" + text);
}

TEST(ParseJson, RoundsDoublesToTheNearest) {
  for (const char* text :
       {"1e-05", "1e-06", "0.1", "123456.789012345678", "1e23", "8.589934592e9",
        "2.2250738585072014e-308", "9007199254740993.0", "0.30000000000000004",
        "1.7976931348623157e308", "-0", "1e-400", "123456789012345678901234567890"}) {
    const Result<boost::json::value> value = ParseJson(text);
    ASSERT_TRUE(value.ok()) << text << value.status().ToString();
    EXPECT_EQ(value->get_double(), std::strtod(text, nullptr)) << text;
    EXPECT_EQ(std::signbit(value->get_double()), text[0] == '-');
  }
}

TEST(ParseJson, RoundTripsRandomDoubles) {
  // Any bits: in simple numbers a wrong last digit would not show.
  EXPECT_TRUE(rc::check([](uint64_t high, uint64_t low) {
    const double number = std::bit_cast<double>(high * 0x9E3779B97F4A7C15u ^ low);
    RC_PRE(std::isfinite(number));
    char text[40];
    std::snprintf(text, sizeof(text), "%.17e", number);
    const Result<boost::json::value> value = ParseJson(text);
    RC_ASSERT(value.ok());
    RC_ASSERT(value->get_double() == number);
  }));
}

TEST(ParseJson, RefusesADuplicateKeyAtEveryLevel) {
  EXPECT_EQ(ErrorOf(R"({"a":1,"b":2,"a":1})"),
            "INVALID_ARGUMENT: byte 18: an object has the key \"a\" twice");
  EXPECT_NE(ErrorOf(R"([{"x":{"b":{"a":1},"c":0,"b":2}}])").find("\"b\" twice"), std::string::npos);
  EXPECT_NE(ErrorOf("{\"a\":1,\"\\u0061\":1}").find("\"a\" twice"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"":1,"":1})").find("\"\" twice"), std::string::npos);
  EXPECT_EQ(ErrorOf(R"({"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]})"), "no error");
}

TEST(ParseJson, RefusesWhatJsonDoesNotHave) {
  for (const std::string& text : std::vector<std::string>{"",
                                                          " \n",
                                                          "NaN",
                                                          "[NaN]",
                                                          "Infinity",
                                                          "[-Infinity]",
                                                          "nan",
                                                          "1e999",
                                                          "-1e400",
                                                          "01",
                                                          "+1",
                                                          "1.",
                                                          ".5",
                                                          "0x10",
                                                          "1e",
                                                          "-",
                                                          "[1,]",
                                                          "{\"a\":1,}",
                                                          "{'a':1}",
                                                          "{a:1}",
                                                          "[1 2]",
                                                          "// c\n1",
                                                          "[1]/**/",
                                                          "\"\x01\"",
                                                          "\"\t\"",
                                                          "\"\\x41\"",
                                                          "\"\\ud800\"",
                                                          "\"\\udc00\"",
                                                          "\"\\ud800\\u0041\"",
                                                          "\"\xFF\"",
                                                          "\"\xC0\x80\"",
                                                          "\"\xED\xA0\x80\"",
                                                          "\"\xE2\x82\"",
                                                          "\"\xF5\x80\x80\x80\"",
                                                          "{\"\xFF\":1}",
                                                          "\xEF\xBB\xBF{}",
                                                          "{} {}",
                                                          "{}x",
                                                          "[",
                                                          "{\"a\"",
                                                          "\"abc",
                                                          "tru",
                                                          "[1]\v",
                                                          std::string("1\0", 2),
                                                          std::string("{}\0 ", 4)}) {
    EXPECT_EQ(ErrorOf(text).substr(0, 22), "INVALID_ARGUMENT: byte") << text;
  }
}

TEST(ParseJson, SaysWhere) {
  EXPECT_EQ(ErrorOf(R"({"a": nul})").substr(0, 25), "INVALID_ARGUMENT: byte 6:");
  EXPECT_EQ(ErrorOf("{} x"),
            "INVALID_ARGUMENT: byte 3: expected the end of the JSON text, found more");
}

TEST(ParseJson, KeepsItsLimits) {
  EXPECT_EQ(ErrorOf("[1234567]", {.bytes = 8}),
            "OUT_OF_RANGE: expected JSON of at most 8 bytes, found 9");
  EXPECT_EQ(ErrorOf("[[[1]]]", {.depth = 3}), "no error");
  EXPECT_EQ(ErrorOf("[[[[1]]]]", {.depth = 3}),
            "OUT_OF_RANGE: byte 3: arrays and objects nest deeper than 3");
  EXPECT_EQ(ErrorOf("{\"a\":[{\"a\":[1]}]}", {.depth = 3}).substr(0, 12), "OUT_OF_RANGE");
  EXPECT_EQ(ErrorOf(std::string(1'000'000, '[')).substr(0, 12), "OUT_OF_RANGE");
  EXPECT_EQ(ErrorOf("[1,2,3]", {.values = 4}), "no error");
  EXPECT_NE(ErrorOf("[1,2,3,4]", {.values = 4}).find("too many values"), std::string::npos);
}

TEST(ReadJsonFile, NamesTheFile) {
  const std::string path = testing::TempDir() + "/json_test.json";
  std::ofstream(path) << "{\"a\":}";
  const Result<boost::json::value> value = ReadJsonFile(path);
  ASSERT_FALSE(value.ok());
  EXPECT_EQ(value.status().message().substr(0, path.size() + 8), path + ": byte 5");
  std::ofstream(path) << "{\"a\": 7}";
  EXPECT_TRUE(ReadJsonFile(path).ok());
  EXPECT_EQ(ReadJsonFile(path, {.bytes = 7}).status().code(), StatusCode::kOutOfRange);
  std::remove(path.c_str());
  EXPECT_EQ(ReadJsonFile(path).status().code(), StatusCode::kNotFound);
}

TEST(DescribeJson, CutsLongValuesBetweenCharacters) {
  EXPECT_EQ(DescribeJson(boost::json::value("abc")), "\"abc\"");
  std::string text;
  for (int i = 0; i < 40; ++i) text += "\xC3\xA9";
  const std::string shown = DescribeJson(boost::json::value(text));
  EXPECT_EQ(shown, "\"" + text.substr(0, 58) + "...");
}

class ReaderTest : public testing::Test {
 protected:
  boost::json::value value_ =
      ParseJson(
          R"({"i":7,"neg":-1,"f":16.0,"half":0.5,"big":1e300,"u":18446744073709551615,"s":"abc",
          "b":true,"n":null,"list":["x","y"],"mixed":["x",1],"o":{"k":"v"}})")
          .value();
  JsonObjectReader reader_ = JsonObjectReader::Of(value_, "config.json").value();
};

TEST_F(ReaderTest, ReadsFieldsOfTheRightType) {
  EXPECT_EQ(*reader_.Int("i"), 7);
  EXPECT_EQ(*reader_.Int("neg"), -1);
  EXPECT_EQ(*reader_.Int("f", {.min = 1, .integral_float = true}), 16);
  EXPECT_EQ(*reader_.Double("half"), 0.5);
  EXPECT_EQ(*reader_.Double("i"), 7.0);
  EXPECT_EQ(*reader_.Bool("b"), true);
  EXPECT_EQ(*reader_.String("s"), "abc");
  EXPECT_EQ(*reader_.StringArray("list"), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(*reader_.Object("o")->String("k"), "v");
}

TEST_F(ReaderTest, TakesNullForAbsent) {
  for (const char* key : {"n", "absent"}) {
    EXPECT_FALSE(reader_.Has(key));
    EXPECT_EQ(*reader_.OptionalInt(key), std::nullopt);
    EXPECT_EQ(*reader_.OptionalDouble(key), std::nullopt);
    EXPECT_EQ(*reader_.OptionalBool(key), std::nullopt);
    EXPECT_EQ(*reader_.OptionalString(key), std::nullopt);
    EXPECT_EQ(*reader_.OptionalStringArray(key), std::nullopt);
    EXPECT_FALSE(reader_.OptionalObject(key)->has_value());
    EXPECT_FALSE(reader_.Int(key).ok());
    EXPECT_FALSE(reader_.StringArray(key).ok());
  }
}

TEST_F(ReaderTest, NamesFileFieldExpectedAndFound) {
  EXPECT_EQ(reader_.Int("s", IntRange::Positive()).status().message(),
            "config.json: \"s\": expected a positive integer, found \"abc\"");
  EXPECT_EQ(reader_.Int("absent", IntRange::NonNegative()).status().message(),
            "config.json: \"absent\": expected a non-negative integer, found no such field");
  EXPECT_EQ(reader_.OptionalInt("i", {.min = 8, .max = 9}).status().message(),
            "config.json: \"i\": expected an integer from 8 to 9, found 7");
  EXPECT_EQ(reader_.Int("n").status().message(),
            "config.json: \"n\": expected an integer, found null");
  EXPECT_EQ(reader_.StringArray("mixed").status().message(),
            "config.json: \"mixed\": expected an array of strings, found [\"x\",1]");
  EXPECT_EQ(reader_.Object("o")->Bool("k").status().message(),
            "config.json: \"o\": \"k\": expected true or false, found \"v\"");
  EXPECT_EQ(JsonObjectReader::Of(value_.at("list"), "x.json").status().message(),
            "x.json: expected a JSON object, found [\"x\",\"y\"]");
}

TEST_F(ReaderTest, RefusesOtherTypesAndRanges) {
  EXPECT_FALSE(reader_.Int("f").ok());
  EXPECT_FALSE(reader_.Int("half", {.integral_float = true}).ok());
  EXPECT_FALSE(reader_.Int("big", {.integral_float = true}).ok());
  EXPECT_FALSE(reader_.Int("u").ok());
  EXPECT_FALSE(reader_.Int("b").ok());
  EXPECT_FALSE(reader_.Int("neg", IntRange::NonNegative()).ok());
  EXPECT_FALSE(reader_.Double("s").ok());
  EXPECT_FALSE(reader_.OptionalBool("i").ok());
  EXPECT_FALSE(reader_.OptionalString("i").ok());
  EXPECT_FALSE(reader_.OptionalStringArray("s").ok());
  EXPECT_FALSE(reader_.OptionalObject("list").ok());
}

}  // namespace
}  // namespace lorica::formats
