#include "lorica/formats/added_tokens.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lorica::formats {
namespace {

using Pass = AddedTokens::Pass;
using Special = AddedTokens::Special;

AddedTokens Make(std::vector<AddedToken> tokens, Normalizer normalizer = Normalizer::kNone) {
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i].id = static_cast<int32_t>(i);
  auto added = AddedTokens::Create(std::move(tokens), normalizer);
  EXPECT_TRUE(added.ok()) << added.status().ToString();
  return *std::move(added);
}

// "{id}" for tokens, the text itself in between.
std::string Cut(const AddedTokens& added, std::string_view text, Pass pass = Pass::kRaw,
                Special special = Special::kFind) {
  std::string out;
  for (const AddedTokenPiece& piece : added.Cut(text, pass, special)) {
    if (piece.token == nullptr) {
      out += "(" + std::string(piece.text) + ")";
    } else {
      out += "{" + std::to_string(piece.token->id) + "}";
    }
  }
  return out;
}

TEST(AddedTokensTest, LeftmostThenLongest) {
  const AddedTokens added = Make({{.content = "<a"}, {.content = "<a>"}, {.content = "a>b"}});
  EXPECT_EQ(Cut(added, "x<a>b<ab"), "(x){1}(b){0}(b)");
  EXPECT_EQ(Cut(added, "a>b<"), "{2}(<)");
  EXPECT_EQ(Cut(added, ""), "");
  EXPECT_EQ(Cut(added, "none"), "(none)");
}

TEST(AddedTokensTest, PassesAreApart) {
  const AddedTokens added = Make({{.content = "raw"}, {.content = "norm", .normalized = true}});
  EXPECT_EQ(Cut(added, "raw norm"), "{0}( norm)");
  EXPECT_EQ(Cut(added, "raw norm", Pass::kNormalized), "(raw ){1}");
}

TEST(AddedTokensTest, NormalizedContentIsSoughtNormalized) {
  const AddedTokens added = Make({{.content = "e\u0301", .normalized = true}}, Normalizer::kNfc);
  EXPECT_EQ(Cut(added, "\u00E9", Pass::kNormalized), "{0}");
}

TEST(AddedTokensTest, SingleWord) {
  const AddedTokens added = Make({{.content = "cat", .single_word = true}, {.content = "at"}});
  EXPECT_EQ(Cut(added, "cat a-cat."), "{0}( a-){0}(.)");
  // A match that touches a word is discarded, and what lies inside it stays hidden.
  EXPECT_EQ(Cut(added, "cats \u00E9cat"), "(cats \u00E9cat)");
}

TEST(AddedTokensTest, StripsTakeWhitespaceAlong) {
  const AddedTokens left = Make({{.content = "<l>", .lstrip = true}});
  EXPECT_EQ(Cut(left, "a \u3000\n<l> b"), "(a){0}( b)");
  const AddedTokens right = Make({{.content = "<r>", .rstrip = true}});
  EXPECT_EQ(Cut(right, "a <r> \u3000\nb"), "(a ){0}(b)");
  const AddedTokens both = Make({{.content = "<b>", .lstrip = true, .rstrip = true}});
  EXPECT_EQ(Cut(both, " <b>  <b> "), "{0}{0}");
}

TEST(AddedTokensTest, SpecialTokensCanBeText) {
  const AddedTokens added = Make({{.content = "<s>", .special = true}, {.content = "<t>"}});
  EXPECT_EQ(Cut(added, "<s><t>", Pass::kRaw, Special::kAsText), "(<s>){1}");
}

TEST(AddedTokensTest, DoublesAreNamed) {
  const auto ids = AddedTokens::Create({{.id = 7, .content = "a"}, {.id = 7, .content = "b"}},
                                       Normalizer::kNone);
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().message(), "added token 7 is given twice");
  const auto contents = AddedTokens::Create({{.id = 7, .content = "a"}, {.id = 8, .content = "a"}},
                                            Normalizer::kNone);
  ASSERT_FALSE(contents.ok());
  EXPECT_EQ(contents.status().message(),
            "added token 8 has the content \"a\", as another added token has");
}

TEST(AddedTokensTest, ManyTokensInOneRunOfSpacesAreNotQuadratic) {
  const AddedTokens added =
      Make({{.content = "\n", .lstrip = true, .rstrip = false}, {.content = "\t", .rstrip = true}});
  std::string text;
  for (int i = 0; i < 300'000; ++i) text += "\n\t";
  EXPECT_GT(added.Cut(text, Pass::kRaw, Special::kFind).size(), 1u);
}

}  // namespace
}  // namespace lorica::formats
