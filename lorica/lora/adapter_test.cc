#include "lorica/lora/adapter.h"

#include <gtest/gtest.h>

#include <utility>

namespace lorica::lora {
namespace {

SiteFactors Factors(int32_t site, int32_t rank) {
  SiteFactors factors;
  factors.site = {site};
  factors.rank = rank;
  factors.shape = {4, 4};
  return factors;
}

TEST(Adapter, KnowsItsDigestBytesAndGreatestRank) {
  MemoryLedger ledger;
  {
    Result<Buffer> storage = Buffer::Allocate(256, MemoryTag::kAdapterCold, &ledger);
    ASSERT_TRUE(storage.ok());
    const Adapter adapter(
        {"ab12", {Factors(0, 4), Factors(2, 20), Factors(5, 8)}, std::move(storage).value()});
    EXPECT_EQ(adapter.digest(), "ab12");
    EXPECT_EQ(adapter.max_rank(), 20);
    EXPECT_EQ(adapter.bytes(), 256);
    EXPECT_EQ(adapter.sites().size(), 3u);
    EXPECT_EQ(ledger.bytes(MemoryTag::kAdapterCold), 256);
  }
  EXPECT_EQ(ledger.bytes(MemoryTag::kAdapterCold), 0);
}

TEST(AdapterDeathTest, SitesMustAscend) {
  EXPECT_DEATH(Adapter({"ab12", {Factors(2, 4), Factors(2, 4)}, Buffer()}), "site");
  EXPECT_DEATH(Adapter({"ab12", {Factors(0, 0)}, Buffer()}), "rank");
}

}  // namespace
}  // namespace lorica::lora
