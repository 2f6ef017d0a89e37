#include "lorica/lora/weight_table.h"

#include <gtest/gtest.h>

namespace lorica::lora {
namespace {

using SiteTiles = WeightTable::SiteTiles;

std::byte memory[64];

std::vector<TileRef> Tiles(const std::vector<uint32_t>& ids, DType dtype = DType::kBF16) {
  std::vector<TileRef> tiles;
  for (uint32_t id : ids) tiles.push_back({memory, 0.5f, dtype, {id}});
  return tiles;
}

class WeightTableTest : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(table_.CheckIntegrity(), OkStatus()); }

  uint32_t Class(int32_t slot, int32_t layer, CallKind call) const {
    return table_.CallClass({slot}, layer, call);
  }

  const SiteSpace sites_{2};
  const SiteId q0_ = sites_.Linear(0, Projection::kQ);
  const SiteId v0_ = sites_.Linear(0, Projection::kV);
  const SiteId q1_ = sites_.Linear(1, Projection::kQ);
  const SiteId down1_ = sites_.Linear(1, Projection::kDown);
  WeightTable table_{sites_, 4};
};

TEST_F(WeightTableTest, FindsTilesByIndexAlone) {
  table_.Install({2}, {{q0_, Tiles({5, 9})}, {down1_, Tiles({3})}});
  EXPECT_EQ(table_.TileCountAt({2}, q0_), 2);
  EXPECT_EQ(table_.TileCountAt({2}, v0_), 0);
  EXPECT_EQ(table_.Entry({2}, q0_).tiles[1].handle.id, 9u);
  EXPECT_EQ(table_.Entry({2}, q0_).tiles[1].scale, 0.5f);
  EXPECT_EQ(table_.Entry({2}, down1_).tiles[0].handle.id, 3u);
  EXPECT_EQ(table_.TileCountAt({1}, q0_), 0);

  table_.Install({2}, {{v0_, Tiles({7})}});
  EXPECT_EQ(table_.TileCountAt({2}, q0_), 0);
  EXPECT_EQ(table_.TileCountAt({2}, v0_), 1);
  table_.Clear({2});
  EXPECT_EQ(table_.TileCountAt({2}, v0_), 0);
  EXPECT_EQ(Class(2, 0, CallKind::kQkv), 0u);
}

TEST_F(WeightTableTest, EqualCountsAndTypesAreOneClass) {
  table_.Install({0}, {{q0_, Tiles({0, 1})}, {q1_, Tiles({2, 3})}});
  table_.Install({1}, {{q0_, Tiles({4, 5})}});
  table_.Install({2}, {{q0_, Tiles({6})}});
  table_.Install({3}, {{q0_, Tiles({7, 8}, DType::kF32)}});
  const uint32_t two = Class(0, 0, CallKind::kQkv);
  EXPECT_NE(two, 0u);
  EXPECT_EQ(Class(0, 1, CallKind::kQkv), two);
  EXPECT_EQ(Class(1, 0, CallKind::kQkv), two);
  EXPECT_NE(Class(2, 0, CallKind::kQkv), two);
  EXPECT_NE(Class(3, 0, CallKind::kQkv), two);
  EXPECT_EQ(Class(0, 0, CallKind::kO), 0u);
  EXPECT_EQ(Class(1, 1, CallKind::kQkv), 0u);
}

TEST_F(WeightTableTest, TilesOfTwoPartsDoNotChangePlaces) {
  table_.Install({0}, {{q0_, Tiles({0, 1})}});
  table_.Install({1}, {{v0_, Tiles({2, 3})}});
  EXPECT_NE(Class(0, 0, CallKind::kQkv), Class(1, 0, CallKind::kQkv));
}

TEST_F(WeightTableTest, TheHeadIsACallOfItsOwn) {
  table_.Install({0}, {{q0_, Tiles({0})}, {sites_.Head(), Tiles({1})}});
  EXPECT_NE(Class(0, 0, CallKind::kHead), 0u);
  EXPECT_EQ(Class(0, 0, CallKind::kHead), Class(0, 77, CallKind::kHead));
  EXPECT_EQ(Class(0, 1, CallKind::kQkv), 0u);
}

// Adapters of ever new shapes come and go: class numbers do not grow without bound.
TEST_F(WeightTableTest, NumbersOfClassesAreUsedAgain) {
  for (uint32_t count = 1; count <= 100; ++count) {
    std::vector<uint32_t> ids(count);
    for (uint32_t i = 0; i < count; ++i) ids[i] = i;
    table_.Install({0}, {{q0_, Tiles(ids)}});
    EXPECT_LE(Class(0, 0, CallKind::kQkv), 2u);
    ASSERT_EQ(table_.CheckIntegrity(), OkStatus());
  }
}

TEST_F(WeightTableTest, AMovedTileIsFoundInEverySlotThatNamesIt) {
  table_.Install({0}, {{q0_, Tiles({5, 6})}});
  table_.Install({1}, {{q0_, Tiles({7, 6})}, {v0_, Tiles({6})}});
  table_.Readdress({6}, memory + 32);
  EXPECT_EQ(table_.Entry({0}, q0_).tiles[0].address, memory);
  EXPECT_EQ(table_.Entry({0}, q0_).tiles[1].address, memory + 32);
  EXPECT_EQ(table_.Entry({1}, q0_).tiles[1].address, memory + 32);
  EXPECT_EQ(table_.Entry({1}, v0_).tiles[0].address, memory + 32);

  table_.Clear({0});
  table_.Readdress({6}, memory + 48);
  EXPECT_EQ(table_.Entry({1}, v0_).tiles[0].address, memory + 48);
  table_.Readdress({99}, memory);  // no slot names it
}

}  // namespace
}  // namespace lorica::lora
