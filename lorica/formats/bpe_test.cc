#include "lorica/formats/bpe.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lorica::formats {
namespace {

std::vector<int32_t> Encode(const Bpe& bpe, std::string_view word) {
  Bpe::Scratch scratch;
  std::vector<int32_t> ids;
  bpe.Encode(word, &scratch, &ids);
  return ids;
}

Bpe Make(const BpeSpec& spec) {
  auto bpe = Bpe::Create(spec);
  EXPECT_TRUE(bpe.ok()) << bpe.status().ToString();
  return *std::move(bpe);
}

TEST(BpeTest, LowestRankFirstThenLeftmost) {
  // 0 a, 1 b, 2 c, 3 ab, 4 bc, 5 aa
  const Bpe bpe = Make({.tokens = {"a", "b", "c", "ab", "bc", "aa"},
                        .merges = {{"b", "c"}, {"a", "b"}, {"a", "a"}}});
  EXPECT_EQ(Encode(bpe, "abc"), (std::vector<int32_t>{0, 4}));
  EXPECT_EQ(Encode(bpe, "ab"), (std::vector<int32_t>{3}));
  EXPECT_EQ(Encode(bpe, "aaa"), (std::vector<int32_t>{5, 0}));
  EXPECT_EQ(Encode(bpe, ""), (std::vector<int32_t>{}));
}

TEST(BpeTest, TheLastRankOfAPairGivenTwiceHolds) {
  const Bpe bpe =
      Make({.tokens = {"a", "b", "c", "ab", "bc"}, .merges = {{"a", "b"}, {"b", "c"}, {"a", "b"}}});
  EXPECT_EQ(Encode(bpe, "abc"), (std::vector<int32_t>{0, 4}));
}

TEST(BpeTest, IgnoreMergesTakesWholeWords) {
  BpeSpec spec{.tokens = {"a", "b", "ab", "aba"}, .merges = {{"a", "b"}}};
  EXPECT_EQ(Encode(Make(spec), "aba"), (std::vector<int32_t>{2, 0}));
  spec.ignore_merges = true;
  EXPECT_EQ(Encode(Make(spec), "aba"), (std::vector<int32_t>{3}));
  EXPECT_EQ(Encode(Make(spec), "abaa"), (std::vector<int32_t>{2, 0, 0}));
  spec.unreachable = {false, false, false, true};
  EXPECT_EQ(Encode(Make(spec), "aba"), (std::vector<int32_t>{2, 0}));
}

TEST(BpeTest, BytesWithoutAToken) {
  BpeSpec spec{.tokens = {"a", "<unk>"}, .merges = {}};
  EXPECT_EQ(Encode(Make(spec), "zaz"), (std::vector<int32_t>{0}));
  spec.unk_token = "<unk>";
  EXPECT_EQ(Encode(Make(spec), "zzaz"), (std::vector<int32_t>{1, 1, 0, 1}));
  spec.fuse_unk = true;
  EXPECT_EQ(Encode(Make(spec), "zzaz"), (std::vector<int32_t>{1, 0, 1}));
}

TEST(BpeTest, TokensAreBytes) {
  const Bpe bpe = Make({.tokens = {"Ġthe", "Ã", "a b", ""}, .merges = {}});
  EXPECT_EQ(bpe.token_bytes()[0], " the");
  EXPECT_EQ(bpe.token_bytes()[1], "\xC3");
  EXPECT_EQ(bpe.token_bytes()[2], "a b");
  EXPECT_EQ(bpe.Find(" the"), 0);
  EXPECT_EQ(bpe.Find("a b"), std::nullopt);  // no text reaches it
  EXPECT_EQ(bpe.Find(""), std::nullopt);
}

TEST(BpeTest, ContradictionsAreNamed) {
  const auto message = [](const BpeSpec& spec) {
    const auto bpe = Bpe::Create(spec);
    return bpe.ok() ? std::string("OK") : bpe.status().message();
  };
  EXPECT_EQ(message({.tokens = {"a", "a"}, .merges = {}}),
            "the vocabulary has the token \"a\" twice");
  EXPECT_EQ(message({.tokens = {"a", "b"}, .merges = {{"a", "b"}}}),
            "merge 0 needs the token \"ab\", which the vocabulary lacks");
  EXPECT_EQ(message({.tokens = {"a", "ab"}, .merges = {{"a", "b"}}}),
            "merge 0 needs the token \"b\", which the vocabulary lacks");
  EXPECT_EQ(message({.tokens = {"a"}, .merges = {}, .unk_token = "<unk>"}),
            "unk_token \"<unk>\" is not in the vocabulary");
}

// The definition, quadratic: merge the best pair until there is none.
std::vector<std::string> MergeByDefinition(
    const std::map<std::pair<std::string, std::string>, size_t>& ranks, std::string_view word) {
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  while (true) {
    size_t best = parts.size();
    size_t best_rank = ranks.size();
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = ranks.find({parts[i], parts[i + 1]});
      if (found != ranks.end() && found->second < best_rank) {
        best = i;
        best_rank = found->second;
      }
    }
    if (best == parts.size()) return parts;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

TEST(BpeTest, AgreesWithTheDefinition) {
  EXPECT_TRUE(rc::check("the queue gives what the definition gives", [] {
    std::vector<std::string> tokens = {"a", "b", "c"};
    std::vector<std::pair<std::string, std::string>> merges;
    std::map<std::pair<std::string, std::string>, size_t> ranks;
    const auto steps = *rc::gen::inRange(0, 20);
    for (int i = 0; i < steps; ++i) {
      const auto left = *rc::gen::elementOf(tokens);
      const auto right = *rc::gen::elementOf(tokens);
      const std::string joined = left + right;
      if (!ranks.emplace(std::pair{left, right}, merges.size()).second) continue;
      merges.emplace_back(left, right);
      if (std::find(tokens.begin(), tokens.end(), joined) == tokens.end()) {
        tokens.push_back(joined);
      }
    }
    BpeSpec spec;
    spec.tokens.assign(tokens.begin(), tokens.end());
    for (const auto& [left, right] : merges) spec.merges.push_back({left, right});
    const Bpe bpe = Make(spec);
    const auto word = *rc::gen::container<std::string>(rc::gen::element('a', 'b', 'c'));
    std::vector<std::string> parts;
    for (const int32_t id : Encode(bpe, word)) {
      parts.push_back(bpe.token_bytes()[static_cast<size_t>(id)]);
    }
    EXPECT_EQ(parts, MergeByDefinition(ranks, word));
  }));
}

TEST(BpeTest, AWordOfAMegabyteIsNotQuadratic) {
  std::vector<std::string> tokens = {"a"};
  std::vector<BpeMerge> merges;
  tokens.reserve(10);
  for (int i = 0; i < 8; ++i) tokens.push_back(tokens.back() + tokens.back());
  for (size_t i = 0; i < 8; ++i) merges.push_back({tokens[i], tokens[i]});
  BpeSpec spec;
  spec.tokens.assign(tokens.begin(), tokens.end());
  spec.merges = merges;
  const Bpe bpe = Make(spec);
  const auto start = std::chrono::steady_clock::now();
  const auto ids = Encode(bpe, std::string(1 << 20, 'a'));
  EXPECT_EQ(ids, std::vector<int32_t>(1 << 12, 8));
  // Quadratic merging takes hours; this takes about a second with sanitizers.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace lorica::formats
