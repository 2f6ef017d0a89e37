#include "lorica/engine/ngram_index.h"

#include <gtest/gtest.h>

#include <string>
// Behind gtest.
#include <rapidcheck/gtest.h>

namespace lorica::engine {
namespace {

std::vector<int32_t> Tokens(const std::string& text) { return {text.begin(), text.end()}; }

NgramIndex::Match FindIn(const std::vector<int32_t>& text) {
  NgramIndex index(static_cast<int64_t>(text.size()));
  index.Extend(text);
  return index.Find(text);
}

TEST(NgramIndex, FindsWhereTheLatestTokensStood) {
  const NgramIndex::Match match = FindIn(Tokens("the cat and the dog; the cat"));
  EXPECT_EQ(match.next, 7);
  EXPECT_EQ(match.length, 7);
  EXPECT_EQ(FindIn(Tokens("abcdefgh")).length, 0);
  EXPECT_EQ(FindIn(Tokens("a;b-a")).length, 0);  // one token is too little
  EXPECT_EQ(FindIn({}).length, 0);
  EXPECT_EQ(FindIn({1}).length, 0);
}

// A small table in which everything collides: what is found must still be there.
TEST(NgramIndex, EqualHashesAreNotEqualTokens) {
  EXPECT_TRUE(rc::check([] {
    const auto text = *rc::gen::container<std::vector<int32_t>>(rc::gen::inRange(0, 6));
    const auto last = *rc::gen::inRange<size_t>(0, text.size() + 1);
    std::vector<int32_t> repeated = text;
    repeated.insert(repeated.end(), text.begin(), text.begin() + static_cast<ptrdiff_t>(last));
    NgramIndex index(1);
    index.Extend(repeated);
    const NgramIndex::Match match = index.Find(repeated);
    for (int32_t i = 1; i <= match.length; ++i) {
      RC_ASSERT(repeated[static_cast<size_t>(match.next - i)] ==
                repeated[repeated.size() - static_cast<size_t>(i)]);
    }
  }));
}

TEST(NgramIndex, PrefersTheLongestThenTheLatest) {
  const NgramIndex::Match longest = FindIn(Tokens("xabc1 yabc2 zabc3 yabc"));
  EXPECT_EQ(longest.next, 10);
  const NgramIndex::Match latest = FindIn(Tokens("abc1 dabc2 eabc3 fabc"));
  EXPECT_EQ(latest.next, 15);
  EXPECT_EQ(latest.length, 3);
}

TEST(NgramIndex, ALoopAgreesWithItself) {
  const NgramIndex::Match match = FindIn(std::vector<int32_t>(100, 7));
  EXPECT_EQ(match.next, 99);
  EXPECT_EQ(match.length, NgramIndex::kMostMatch);
}

// What is found is there, and agrees no shorter than the latest place; pieces of any size index as
// the whole does.
TEST(NgramIndex, FindsNothingThatIsNotThere) {
  EXPECT_TRUE(rc::check([] {
    const int32_t alphabet = *rc::gen::element(1, 2, 3, 20, 1000);
    const auto text = *rc::gen::container<std::vector<int32_t>>(rc::gen::inRange(0, alphabet));
    // So large that no other tokens come to share a bucket and hide the latest place.
    NgramIndex index(1 << 16);
    for (size_t done = 0; done < text.size();) {
      done += *rc::gen::inRange<size_t>(1, text.size() - done + 1);
      index.Extend(std::span(text).first(done));
    }
    const NgramIndex::Match match = index.Find(text);
    const auto size = static_cast<int32_t>(text.size());
    const auto agree = [&](int32_t place) {
      int32_t n = 0;
      while (n < place && n < NgramIndex::kMostMatch &&
             text[static_cast<size_t>(place - n - 1)] == text[static_cast<size_t>(size - n - 1)]) {
        ++n;
      }
      return n;
    };
    int32_t latest = size - 1;
    while (latest > 0 && agree(latest) < NgramIndex::kLeastMatch) --latest;
    if (latest <= 0) {
      RC_ASSERT(match.length == 0);
      return;
    }
    RC_ASSERT(match.next > 0 && match.next < size);
    RC_ASSERT(match.length == agree(match.next));
    RC_ASSERT(match.length >= agree(latest));
  }));
}

}  // namespace
}  // namespace lorica::engine
