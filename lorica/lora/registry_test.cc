#include "lorica/lora/registry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace lorica::lora {
namespace {

AdapterHold MakeAdapter(const std::string& digest) {
  auto adapter = std::make_shared<TieredAdapter>();
  adapter->digest = digest;
  return adapter;
}

TEST(Registry, ARequestKeepsTheVersionItBeganWith) {
  Registry registry;
  registry.Publish("a", MakeAdapter("one"));
  Result<AdapterRef> first = registry.Acquire("a");
  ASSERT_TRUE(first.ok());
  const std::shared_ptr<Version> second = registry.Publish("a", MakeAdapter("two"));
  EXPECT_EQ(first->version().digest(), "one");
  EXPECT_EQ(first->version().users(), 1);
  Result<AdapterRef> later = registry.Acquire("a");
  ASSERT_TRUE(later.ok());
  EXPECT_EQ(later->version().digest(), "two");
  EXPECT_GT(later->version().number(), first->version().number());

  ASSERT_TRUE(registry.Remove("a").ok());
  EXPECT_EQ(later->version().digest(), "two");
  EXPECT_FALSE(registry.Acquire("a").ok());
  EXPECT_EQ(second->users(), 1);
  later = AdapterRef();
  EXPECT_EQ(second->users(), 0);
  EXPECT_TRUE(registry.CheckIntegrity().ok());
}

TEST(Registry, SaysWhyANameIsNotServed) {
  Registry registry;
  registry.Refuse("bad", InvalidArgument("rank 0 of layer 1 q_proj"));
  const Result<AdapterRef> refused = registry.Acquire("bad");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(refused.status().message(), "adapter 'bad' is not served: rank 0 of layer 1 q_proj");
  EXPECT_EQ(registry.Acquire("none").status().message(), "no adapter is named 'none'");
  EXPECT_FALSE(registry.Contains("bad"));
  EXPECT_TRUE(registry.Remove("bad").ok());
  EXPECT_EQ(registry.Remove("bad").code(), StatusCode::kNotFound);
}

TEST(Registry, AFailedReplacementLeavesTheServedVersion) {
  Registry registry;
  registry.Refuse("a", DataLoss("file ends early"));
  registry.Publish("a", MakeAdapter("one"));
  registry.Refuse("a", DataLoss("file ends early"));
  ASSERT_TRUE(registry.Acquire("a").ok());
  EXPECT_TRUE(registry.CheckIntegrity().ok());
}

TEST(Registry, ListsByName) {
  Registry registry;
  for (const char* name : {"b", "c", "a"}) registry.Publish(name, MakeAdapter(name));
  const auto versions = registry.List();
  ASSERT_EQ(versions.size(), 3u);
  EXPECT_EQ(versions[0]->name(), "a");
  EXPECT_EQ(versions[2]->name(), "c");
}

TEST(AdapterRef, MovesItsPin) {
  Registry registry;
  const std::shared_ptr<Version> version = registry.Publish("a", MakeAdapter("one"));
  AdapterRef base;
  EXPECT_TRUE(base.is_base());
  AdapterRef a(version);
  AdapterRef b(std::move(a));
  EXPECT_EQ(version->users(), 1);
  base = std::move(b);
  EXPECT_EQ(version->users(), 1);
  AdapterRef& self = base;
  base = std::move(self);
  EXPECT_EQ(version->users(), 1);
  EXPECT_FALSE(base.is_base());
  base = AdapterRef();
  EXPECT_EQ(version->users(), 0);
}

// Run under the thread sanitizer: every answer belongs to one version, a reader never sees
// versions go back, and no pin is lost.
TEST(Registry, PublishAcquireAndRemoveFromManyThreads) {
  Registry registry;
  const std::shared_ptr<Version> first = registry.Publish("a", MakeAdapter("0"));
  std::atomic<bool> stop{false};
  std::atomic<int64_t> acquired{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      uint64_t last = 0;
      while (!stop.load()) {
        Result<AdapterRef> ref = registry.Acquire("a");
        std::this_thread::yield();
        if (!ref.ok()) continue;
        if (ref->version().number() < last || ref->version().users() < 1) wrong.fetch_add(1);
        last = ref->version().number();
        acquired.fetch_add(1);
      }
    });
  }
  std::vector<std::shared_ptr<Version>> published;
  while (published.size() < 300 || acquired.load() < 300) {
    published.push_back(registry.Publish("a", MakeAdapter(std::to_string(published.size()))));
    if (published.size() % 7 == 0) {
      EXPECT_TRUE(registry.Remove("a").ok());
    }
    if (published.size() % 5 == 0) {
      EXPECT_TRUE(registry.CheckIntegrity().ok());
    }
    std::this_thread::yield();
  }
  stop.store(true);
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(first->users(), 0);
  for (const auto& version : published) EXPECT_EQ(version->users(), 0);
}

}  // namespace
}  // namespace lorica::lora
