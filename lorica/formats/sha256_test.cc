#include "lorica/formats/sha256.h"

#include <gtest/gtest.h>

#include <string>

#include "lorica/base/test_chances.h"

namespace lorica::formats {
namespace {

TEST(Sha256, MatchesThePublishedVectors) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, PiecesEqualTheWhole) {
  Sha256 pieces;
  for (const char c : std::string("abc")) pieces.Update(std::as_bytes(std::span(&c, 1)));
  EXPECT_EQ(HexDigest(pieces.Finish()), Sha256Hex("abc"));
  EXPECT_EQ(HexDigest(pieces.Finish()), Sha256Hex("")) << "Finish starts a new message";
}

TEST(Sha256, GivesWay) {
  const std::string bytes(1 << 20, 'x');
  EXPECT_GE(ChancesIn([&] { EXPECT_EQ(Sha256Hex(bytes).size(), 64u); }), (1 << 20) / (64 << 10));
}

TEST(Sha256, SizedStringsCannotBeReadTwoWays) {
  Sha256 left, right;
  left.UpdateSized("ab");
  left.UpdateSized("c");
  right.UpdateSized("a");
  right.UpdateSized("bc");
  EXPECT_NE(left.Finish(), right.Finish());
  left.UpdateU64(0x0102030405060708);
  EXPECT_EQ(HexDigest(left.Finish()), Sha256Hex("\x08\x07\x06\x05\x04\x03\x02\x01"));
}

}  // namespace
}  // namespace lorica::formats
