#include "lorica/lora/site.h"

#include <gtest/gtest.h>

#include <set>

namespace lorica::lora {
namespace {

TEST(SiteSpace, IndicesAreDenseAndReadBack) {
  const SiteSpace sites{3};
  std::set<int32_t> seen;
  for (int32_t layer = 0; layer < 3; ++layer) {
    for (int p = 0; p < kProjections; ++p) {
      const SiteId site = sites.Linear(layer, static_cast<Projection>(p));
      EXPECT_TRUE(sites.IsLinear(site));
      EXPECT_EQ(sites.Layer(site), layer);
      EXPECT_EQ(sites.ProjectionOf(site), static_cast<Projection>(p));
      seen.insert(site.index);
    }
  }
  seen.insert(sites.Embedding().index);
  seen.insert(sites.Head().index);
  EXPECT_FALSE(sites.IsLinear(sites.Embedding()));
  EXPECT_FALSE(sites.IsLinear(sites.Head()));
  EXPECT_EQ(sites.count(), 23);
  EXPECT_EQ(seen.size(), 23u);
  EXPECT_EQ(*seen.begin(), 0);
  EXPECT_EQ(*seen.rbegin(), 22);
}

TEST(SiteSpace, NamesForPeople) {
  const SiteSpace sites{4};
  EXPECT_EQ(sites.Name(sites.Linear(3, Projection::kQ)), "layer 3 q_proj");
  EXPECT_EQ(sites.Name(sites.Linear(0, Projection::kDown)), "layer 0 down_proj");
  EXPECT_EQ(sites.Name(sites.Embedding()), "embed_tokens");
  EXPECT_EQ(sites.Name(sites.Head()), "lm_head");
}

// Every linear is in exactly one call, and the calls of a layer name that layer's sites alone.
TEST(SiteSpace, CallsCoverEverySiteButTheEmbeddingOnce) {
  const SiteSpace sites{2};
  std::multiset<int32_t> seen;
  const auto add = [&](CallKind call, int32_t layer) {
    const CallSiteIds ids = sites.SitesOf(call, layer);
    for (int32_t i = 0; i < ids.count; ++i) seen.insert(ids.site[static_cast<size_t>(i)].index);
  };
  for (int32_t layer = 0; layer < 2; ++layer) {
    for (CallKind call : {CallKind::kQkv, CallKind::kO, CallKind::kGateUp, CallKind::kDown}) {
      add(call, layer);
    }
  }
  add(CallKind::kHead, 0);
  EXPECT_EQ(seen.size(), 15u);
  for (int32_t site = 0; site < 14; ++site) EXPECT_EQ(seen.count(site), 1u);
  EXPECT_EQ(seen.count(sites.Head().index), 1u);
}

}  // namespace
}  // namespace lorica::lora
