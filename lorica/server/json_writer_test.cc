#include "lorica/server/json_writer.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "lorica/formats/json.h"

namespace lorica::server {
namespace {

TEST(JsonWriter, NestsAndSeparates) {
  JsonWriter json;
  json.BeginObject();
  json.Key("a").Int(-7);
  json.Key("b").BeginArray().Bool(true).Null().String("x").EndArray();
  json.Key("c").BeginObject().EndObject();
  json.Key("d").Raw("[1]");
  json.EndObject();
  EXPECT_EQ(json.Take(), R"({"a":-7,"b":[true,null,"x"],"c":{},"d":[1]})");
}

TEST(JsonWriter, EscapesWhatJsonCannotHold) {
  JsonWriter json;
  json.String(std::string("\"\\\n\t\r\x01\0é", 9));
  EXPECT_EQ(json.Take(), "\"\\\"\\\\\\n\\t\\r\\u0001\\u0000é\"");
}

TEST(JsonWriter, EveryTextComesBack) {
  EXPECT_TRUE(rc::check([] {
    const auto text = *rc::gen::container<std::string>(rc::gen::inRange<char>(0, 127));
    JsonWriter json;
    json.String(text);
    const auto parsed = formats::ParseJson(json.Take());
    RC_ASSERT(parsed.ok());
    RC_ASSERT(parsed->get_string() == text);
  }));
}

TEST(JsonWriter, EveryFloatComesBackToTheSameBits) {
  EXPECT_TRUE(rc::check([] {
    const auto bits = *rc::gen::arbitrary<uint32_t>();
    const auto value = std::bit_cast<float>(bits);
    JsonWriter json;
    json.Float(value);
    const std::string text = json.Take();
    if (!std::isfinite(value)) {
      RC_ASSERT(text == "null");
    } else {
      RC_ASSERT(std::bit_cast<uint32_t>(std::strtof(text.c_str(), nullptr)) == bits);
    }
  }));
  JsonWriter json;
  json.Float(-0.1f);
  EXPECT_EQ(json.Take(), "-0.1");
}

}  // namespace
}  // namespace lorica::server
