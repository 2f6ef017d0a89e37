#include "lorica/engine/kv_allocator.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
// Behind gtest.
#include <rapidcheck/gtest.h>

namespace lorica::engine {
namespace {

KvIdentity Identity(const std::string& adapter, DType dtype = DType::kF32, double weight = 1.0) {
  return MakeKvIdentity({"base", dtype, adapter, weight});
}

TEST(KvIdentity, DistinguishesWhatChangesKAndV) {
  const KvIdentity base = Identity("");
  EXPECT_EQ(base, Identity(""));
  EXPECT_FALSE(base == Identity("a"));
  EXPECT_FALSE(Identity("a") == Identity("b"));
  EXPECT_FALSE(Identity("a") == Identity("a", DType::kBF16));
  EXPECT_FALSE(Identity("a") == Identity("a", DType::kF32, 0.5));
  EXPECT_FALSE(base == MakeKvIdentity({"other base", DType::kF32, "", 1.0}));
  // A weight without an adapter multiplies nothing.
  EXPECT_EQ(base, Identity("", DType::kF32, 0.5));
  // The parts are sized: no two splits of the same bytes meet.
  EXPECT_FALSE(MakeKvIdentity({"ab", DType::kF32, "c", 1.0}) ==
               MakeKvIdentity({"a", DType::kF32, "bc", 1.0}));
}

TEST(KvAllocator, PagesForRoundsUp) {
  EXPECT_EQ(PagesFor(0), 0);
  EXPECT_EQ(PagesFor(1), 1);
  EXPECT_EQ(PagesFor(16), 1);
  EXPECT_EQ(PagesFor(17), 2);
}

TEST(KvAllocator, HandsOutEveryPageOnce) {
  KvAllocator pages(3);
  std::set<int32_t> seen;
  for (int i = 0; i < 3; ++i) seen.insert(pages.Allocate(Identity("a")).value());
  EXPECT_EQ(seen, (std::set<int32_t>{0, 1, 2}));
  EXPECT_FALSE(pages.Allocate(Identity("a")).has_value());
  pages.AddReference(1);
  pages.Release(1);
  EXPECT_EQ(pages.free_pages(), 0);
  pages.Release(1);
  EXPECT_EQ(pages.free_pages(), 1);
  EXPECT_EQ(pages.Allocate(Identity("b")), 1);
  EXPECT_EQ(pages.identity(1), Identity("b"));
  EXPECT_TRUE(pages.CheckIntegrity().ok());
}

// Random holders against a map that knows them all.
TEST(KvAllocator, AgreesWithAModel) {
  EXPECT_TRUE(rc::check([] {
    const int32_t count = *rc::gen::inRange(1, 20);
    KvAllocator pages(count);
    std::map<int32_t, int32_t> held;
    const auto moves = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 300));
    for (int move : moves) {
      if (move % 3 == 0 || held.empty()) {
        const auto page = pages.Allocate(Identity(std::to_string(move)));
        RC_ASSERT(page.has_value() == (static_cast<int32_t>(held.size()) < count));
        if (page.has_value()) {
          RC_ASSERT(held.emplace(*page, 1).second);
          RC_ASSERT(pages.identity(*page) == Identity(std::to_string(move)));
        }
      } else {
        auto it = held.begin();
        std::advance(it, static_cast<size_t>(move) % held.size());
        if (move % 3 == 1) {
          pages.AddReference(it->first);
          ++it->second;
        } else {
          pages.Release(it->first);
          if (--it->second == 0) held.erase(it);
        }
      }
      for (const auto& [page, references] : held) RC_ASSERT(pages.references(page) == references);
      RC_ASSERT(pages.used_pages() == static_cast<int32_t>(held.size()));
      RC_ASSERT(pages.CheckIntegrity().ok());
    }
  }));
}

}  // namespace
}  // namespace lorica::engine
