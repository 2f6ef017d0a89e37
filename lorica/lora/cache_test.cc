#include "lorica/lora/cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "lorica/base/test_chances.h"

namespace lorica::lora {
namespace {

constexpr SiteSpace kSites{2};

// A tile is f32: A's rows [8, K], then B's columns [8, N].
class RowPacker : public TilePacker {
 public:
  int32_t rank_quantum() const override { return 8; }
  int64_t TileBytes(const TileShape& shape) const override {
    return (8 * (shape.k + shape.n) * 4 + 63) / 64 * 64;
  }
  void PackTile(const SiteFactors& factors, int32_t rank_begin, std::byte* tile) const override {
    auto* out = reinterpret_cast<float*>(tile);
    const int64_t k = factors.shape.k;
    const int64_t n = factors.shape.n;
    const auto* a = reinterpret_cast<const float*>(factors.a.data);
    const auto* b = reinterpret_cast<const float*>(factors.b.data);
    for (int32_t i = 0; i < 8; ++i) {
      const int32_t rank = rank_begin + i;
      const bool padding = rank >= factors.rank;
      for (int64_t j = 0; j < k; ++j) out[i * k + j] = padding ? 0 : a[rank * k + j];
      for (int64_t j = 0; j < n; ++j) {
        out[8 * k + i * n + j] = padding ? 0 : b[j * factors.rank + rank];
      }
    }
  }
};

// Acts on q and down of both layers; every number of its factors is `value`.
std::unique_ptr<Adapter> MakeAdapter(const std::string& digest, int32_t rank, float value,
                                     double scale = 1.0) {
  const SiteShape shapes[2] = {{32, 16}, {48, 32}};
  Adapter::Content content;
  content.digest = digest;
  Result<Buffer> storage = Buffer::Allocate(4 * 48 * rank * 4, MemoryTag::kAdapterCold, nullptr);
  LORICA_CHECK(storage.ok());
  content.storage = std::move(storage).value();
  for (float& number : content.storage.as<float>()) number = value;
  for (int32_t layer = 0; layer < 2; ++layer) {
    for (int i = 0; i < 2; ++i) {
      SiteFactors factors;
      factors.site = kSites.Linear(layer, i == 0 ? Projection::kQ : Projection::kDown);
      factors.rank = rank;
      factors.shape = shapes[i];
      factors.a = {content.storage.data(), DType::kF32};
      factors.b = {content.storage.data(), DType::kF32};
      factors.scale = scale;
      content.sites.push_back(factors);
    }
  }
  return std::make_unique<Adapter>(std::move(content));
}

class AdapterCacheTest : public testing::Test {
 protected:
  void Open(int64_t arena_bytes, int32_t slots) {
    AdapterCache::Options options;
    options.sites = kSites;
    options.arena_bytes = arena_bytes;
    options.slots = slots;
    options.largest_tile_bytes = packer_.TileBytes({48, 32, DType::kF32});
    options.packer = &packer_;
    Result<std::unique_ptr<AdapterCache>> cache = AdapterCache::Create(options);
    ASSERT_TRUE(cache.ok());
    cache_ = std::move(cache).value();
  }
  void TearDown() override { EXPECT_EQ(cache_->CheckIntegrity(), OkStatus()); }

  // Every rank of `adapter` is in the slot's tiles, and zero beyond.
  void ExpectPacked(SlotId slot, const Adapter& adapter, float value) {
    for (const SiteFactors& factors : adapter.sites()) {
      const SiteEntry& entry = cache_->table().Entry(slot, factors.site);
      ASSERT_EQ(static_cast<int32_t>(entry.tiles.size()), (factors.rank + 7) / 8);
      const int64_t k = factors.shape.k;
      const int64_t n = factors.shape.n;
      for (size_t t = 0; t < entry.tiles.size(); ++t) {
        const auto* numbers = reinterpret_cast<const float*>(entry.tiles[t].address);
        EXPECT_EQ(entry.tiles[t].scale, static_cast<float>(factors.scale));
        EXPECT_EQ(entry.tiles[t].dtype, DType::kF32);
        for (int32_t i = 0; i < 8; ++i) {
          const float expected = static_cast<int32_t>(t) * 8 + i < factors.rank ? value : 0;
          EXPECT_EQ(numbers[i * k], expected);
          EXPECT_EQ(numbers[i * k + k - 1], expected);
          EXPECT_EQ(numbers[8 * k + i * n], expected);
          EXPECT_EQ(numbers[8 * k + i * n + n - 1], expected);
        }
      }
    }
  }

  RowPacker packer_;
  std::unique_ptr<AdapterCache> cache_;
};

TEST_F(AdapterCacheTest, RankTwentyBecomesThreeTilesPaddedWithZero) {
  Open(1'000'000, 4);
  const auto adapter = MakeAdapter("a", 20, 1.5f, 0.8);
  EXPECT_EQ(cache_->TileBytes(*adapter),
            2 * 3 * (packer_.TileBytes({32, 16, {}}) + packer_.TileBytes({48, 32, {}})));
  const Result<SlotId> slot = cache_->MakeResident(*adapter);
  ASSERT_TRUE(slot.ok());
  ExpectPacked(*slot, *adapter, 1.5f);
  EXPECT_EQ(cache_->pool().used_bytes(), cache_->TileBytes(*adapter));
  EXPECT_EQ(cache_->FindSlot("a"), *slot);
  EXPECT_EQ(cache_->FindSlot("b"), std::nullopt);
}

TEST_F(AdapterCacheTest, EqualContentSharesASlotUntilTheLastOneLeaves) {
  Open(1'000'000, 4);
  const auto adapter = MakeAdapter("a", 8, 1.0f);
  const auto twin = MakeAdapter("a", 8, 1.0f);
  const Result<SlotId> first = cache_->MakeResident(*adapter);
  const Result<SlotId> second = cache_->MakeResident(*twin);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(cache_->pool().used_bytes(), cache_->TileBytes(*adapter));
  cache_->Evict("a");
  EXPECT_EQ(cache_->FindSlot("a"), *first);
  cache_->Evict("a");
  EXPECT_EQ(cache_->FindSlot("a"), std::nullopt);
  EXPECT_EQ(cache_->pool().used_bytes(), 0);
  EXPECT_EQ(cache_->table().TileCountAt(*first, kSites.Linear(0, Projection::kQ)), 0);
}

TEST_F(AdapterCacheTest, SaysWithBothFiguresWhyThereIsNoRoom) {
  Open(200'000, 4);
  const auto giant = MakeAdapter("a1", 512, 1.0f);
  const Result<SlotId> refused = cache_->MakeResident(*giant);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kOutOfRange);
  const std::string arena = std::to_string(cache_->pool().arena_bytes());
  EXPECT_EQ(refused.status().message(), "adapter a1 needs " +
                                            std::to_string(cache_->TileBytes(*giant)) +
                                            " bytes in tiles, the arena of " + arena +
                                            " bytes does not hold it even when empty");

  const auto half = MakeAdapter("b2", 100, 1.0f);
  ASSERT_TRUE(cache_->MakeResident(*half).ok());
  const auto other = MakeAdapter("c3", 100, 1.0f);
  const Result<SlotId> full = cache_->MakeResident(*other);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(
      full.status().message().find("adapter c3 needs " + std::to_string(cache_->TileBytes(*other)) +
                                   " bytes in tiles, the arena of " + arena + " bytes has " +
                                   std::to_string(cache_->pool().free_bytes()) + " free: "),
      0u)
      << full.status().message();
  EXPECT_EQ(cache_->FindSlot("c3"), std::nullopt);
  cache_->Evict("b2");
  EXPECT_TRUE(cache_->MakeResident(*other).ok());
}

TEST_F(AdapterCacheTest, SlotsRunOutWithASentence) {
  Open(1'000'000, 1);
  ASSERT_TRUE(cache_->MakeResident(*MakeAdapter("a", 8, 1.0f)).ok());
  const Result<SlotId> refused = cache_->MakeResident(*MakeAdapter("b", 8, 1.0f));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().message(), "adapter b needs a slot, all 1 are taken");
}

// Adapters come, go and are moved; each keeps its own numbers.
TEST_F(AdapterCacheTest, CompactingKeepsEveryAdaptersTiles) {
  Open(600'000, 64);
  std::mt19937 random(7);
  std::map<std::string, std::pair<std::unique_ptr<Adapter>, float>> held;
  const auto addresses = [&] {
    std::vector<const std::byte*> list;
    for (const auto& [digest, entry] : held) {
      const SlotId slot = *cache_->FindSlot(digest);
      for (int32_t site = 0; site < kSites.count(); ++site) {
        for (const TileRef& tile : cache_->table().Entry(slot, {site}).tiles) {
          list.push_back(tile.address);
        }
      }
    }
    return list;
  };
  int compactions_that_moved = 0;
  for (int step = 0; step < 400; ++step) {
    const std::string digest = "adapter " + std::to_string(step);
    const auto value = static_cast<float>(step + 1);
    auto adapter = MakeAdapter(digest, 1 + static_cast<int32_t>(random() % 40), value);
    if (cache_->MakeResident(*adapter).ok()) {
      held[digest] = {std::move(adapter), value};
    } else {
      for (int i = 0; i < 5 && !held.empty(); ++i) {
        const auto victim = std::next(held.begin(), static_cast<long>(random() % held.size()));
        cache_->Evict(victim->first);
        held.erase(victim);
      }
      const auto before = addresses();
      EXPECT_TRUE(cache_->Compact());
      compactions_that_moved += addresses() != before ? 1 : 0;
    }
    ASSERT_EQ(cache_->CheckIntegrity(), OkStatus());
  }
  EXPECT_GT(compactions_that_moved, 0);
  for (const auto& [digest, entry] : held) {
    ExpectPacked(*cache_->FindSlot(digest), *entry.first, entry.second);
    cache_->Evict(digest);
  }
  EXPECT_EQ(cache_->pool().used_bytes(), 0);
  EXPECT_EQ(cache_->pool().free_bytes(), cache_->pool().arena_bytes());
}

// Run under the thread sanitizer: loaders bring adapters in, equal ones too, while an engine reads
// the tiles of a slot that stays and compacts between its steps.
TEST_F(AdapterCacheTest, LoadersWorkBesideRunningSteps) {
  Open(2'000'000, 64);
  const auto fixed = MakeAdapter("fixed", 24, 3.0f);
  const Result<SlotId> slot = cache_->MakeResident(*fixed);
  ASSERT_TRUE(slot.ok());
  std::atomic<int> running{3};
  std::atomic<int> failures{0};
  std::vector<std::thread> loaders;
  for (int loader = 0; loader < 3; ++loader) {
    loaders.emplace_back([&, loader] {
      for (int i = 0; i < 60; ++i) {
        const auto adapter = MakeAdapter(std::to_string(i % 10), 8 + i % 10, 1.0f);
        if (!cache_->MakeResident(*adapter).ok() ||
            !cache_->FindSlot(adapter->digest()).has_value()) {
          failures.fetch_add(1);
          continue;
        }
        if ((i + loader) % 3 != 0) std::this_thread::yield();
        cache_->Evict(adapter->digest());
      }
      running.fetch_sub(1);
    });
  }
  int64_t steps = 0;
  while (running.load() > 0) {
    ExpectPacked(*cache_->FindSlot("fixed"), *fixed, 3.0f);
    EXPECT_NE(cache_->table().CallClass(*slot, 1, CallKind::kQkv), 0u);
    if (++steps % 4 == 0) cache_->Compact();
  }
  for (std::thread& loader : loaders) loader.join();
  EXPECT_EQ(failures.load(), 0);
  cache_->Evict("fixed");
  EXPECT_EQ(cache_->pool().used_bytes(), 0);
}

TEST_F(AdapterCacheTest, PackingGivesWayAfterEachTile) {
  Open(1'000'000, 4);
  const auto adapter = MakeAdapter("a", 20, 1.0f);
  EXPECT_EQ(ChancesIn([&] { EXPECT_TRUE(cache_->MakeResident(*adapter).ok()); }), 4 * 3)
      << "four sites of rank 20";
}

}  // namespace
}  // namespace lorica::lora
