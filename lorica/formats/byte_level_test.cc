#include "lorica/formats/byte_level.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace lorica::formats {
namespace {

TEST(ByteLevelTest, KnownSpellings) {
  EXPECT_EQ(BytesToByteLevel(" the\n"), "ĠtheĊ");
  EXPECT_EQ(ByteLevelToBytes("Ġthe"), " the");
  EXPECT_EQ(BytesToByteLevel("é"), "Ã©");
  EXPECT_EQ(ByteLevelToBytes(""), "");
}

TEST(ByteLevelTest, EveryByteHasOneCharacter) {
  std::set<char32_t> seen;
  for (int byte = 0; byte < 256; ++byte) {
    seen.insert(ByteLevelChar(static_cast<uint8_t>(byte)));
    const std::string one(1, static_cast<char>(byte));
    EXPECT_EQ(ByteLevelToBytes(BytesToByteLevel(one)), one);
  }
  EXPECT_EQ(seen.size(), 256u);
}

TEST(ByteLevelTest, OtherCharactersAreNotOfTheAlphabet) {
  EXPECT_EQ(ByteLevelToBytes("a b"), std::nullopt);
  EXPECT_EQ(ByteLevelToBytes("\u00AD"), std::nullopt);
  EXPECT_EQ(ByteLevelToBytes("\u0144"), std::nullopt);
  EXPECT_EQ(ByteLevelToBytes("▁a"), std::nullopt);
}

}  // namespace
}  // namespace lorica::formats
