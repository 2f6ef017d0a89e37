#include "lorica/lora/eviction_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "lorica/base/check.h"
#include "lorica/lora/gdsf_policy.h"
#include "lorica/lora/lru_policy.h"
#include "lorica/lora/s3_fifo_policy.h"

namespace lorica::lora {
namespace {

constexpr int64_t kAdapterBytes = 9'800'000;
constexpr double kFixedCost = 1 << 20;

std::vector<std::function<std::unique_ptr<EvictionPolicy>()>> Makers() {
  return {[] { return std::make_unique<LruPolicy>(); },
          [] { return std::make_unique<GdsfPolicy>(GdsfPolicy::Memory::kForget); },
          [] { return std::make_unique<GdsfPolicy>(GdsfPolicy::Memory::kRemember); },
          [] { return std::make_unique<S3FifoPolicy>(); }};
}

class Zipf {
 public:
  Zipf(int names, double exponent) {
    for (int i = 1; i <= names; ++i) weights_.push_back(std::pow(i, -exponent));
    distribution_ = std::discrete_distribution<int>(weights_.begin(), weights_.end());
  }
  int operator()(std::mt19937* random) { return distribution_(*random); }

 private:
  std::vector<double> weights_;
  std::discrete_distribution<int> distribution_;
};

struct Trace {
  std::string name;
  std::vector<int> requests;
  std::function<int64_t(int)> bytes = [](int) { return kAdapterBytes; };
};

std::vector<Trace> Traces() {
  constexpr int kRequests = 40'000;
  std::mt19937 random(3);
  Zipf zipf(1000, 1.0);
  std::vector<Trace> traces(5);
  traces[0].name = "Zipf 1.0 of 1000";
  for (int i = 0; i < kRequests; ++i) traces[0].requests.push_back(zipf(&random));
  traces[1].name = "scan of 1000, round and round";
  for (int i = 0; i < kRequests; ++i) traces[1].requests.push_back(i % 1000);
  traces[2].name = "Zipf with a scan of 5000 once in 10000";
  for (int i = 0; i < kRequests; ++i) {
    const bool scans = i % 10'000 < 5'000 && i % 2 == 0;
    traces[2].requests.push_back(scans ? 1000 + i : zipf(&random));
  }
  traces[3].name = "Zipf whose favourites move every 10000";
  for (int i = 0; i < kRequests; ++i) {
    traces[3].requests.push_back((zipf(&random) + i / 10'000 * 250) % 1000);
  }
  traces[4].name = "Zipf, ranks 8 to 64 mixed";
  for (int i = 0; i < kRequests; ++i) traces[4].requests.push_back(zipf(&random));
  traces[4].bytes = [](int name) { return kAdapterBytes / 2 << (name * 7 % 4); };
  return traces;
}

// The part of the requests whose adapter is in a tier of 50 adapters of rank 16.
double HitRate(const Trace& trace, EvictionPolicy* policy) {
  int64_t room = 50 * kAdapterBytes;
  std::set<uint64_t> in;
  int64_t hits = 0;
  for (int name : trace.requests) {
    const auto key = static_cast<uint64_t>(name);
    if (in.contains(key)) {
      ++hits;
      policy->Touch(key);
      continue;
    }
    while (room < trace.bytes(name)) {
      const auto victim = policy->Victim([](uint64_t) { return true; });
      LORICA_CHECK(victim.has_value() && in.erase(*victim) == 1);
      policy->Evict(*victim);
      room += trace.bytes(static_cast<int>(*victim));
    }
    room -= trace.bytes(name);
    policy->Insert({key, trace.bytes(name), kFixedCost + static_cast<double>(trace.bytes(name))});
    in.insert(key);
  }
  return static_cast<double>(hits) / static_cast<double>(trace.requests.size());
}

// The table of docs/decisions/eviction.md; the last policy is the one in use.
TEST(EvictionPolicy, TheOneInUseIsTheBestOverTheTraces) {
  std::vector<double> sums(Makers().size(), 0.0);
  for (const Trace& trace : Traces()) {
    std::printf("%-42s", trace.name.c_str());
    for (size_t i = 0; i < sums.size(); ++i) {
      const auto policy = Makers()[i]();
      const double rate = HitRate(trace, policy.get());
      sums[i] += rate;
      std::printf("  %s %.3f", std::string(policy->name()).c_str(), rate);
    }
    std::printf("\n");
  }
  EXPECT_EQ(std::max_element(sums.begin(), sums.end()), sums.end() - 1);
}

TEST(EvictionPolicy, TakesOnlyWhatMayGoAndForgetsWhatIsGone) {
  for (const auto& make : Makers()) {
    const auto policy = make();
    SCOPED_TRACE(policy->name());
    for (uint64_t key = 0; key < 20; ++key) policy->Insert({key, 100, 100.0});
    const auto odd = policy->Victim([](uint64_t key) { return key % 2 == 1; });
    ASSERT_TRUE(odd.has_value());
    EXPECT_EQ(*odd % 2, 1u);
    EXPECT_EQ(policy->Victim([](uint64_t) { return false; }), std::nullopt);
    policy->Forget(7);
    policy->Forget(7);
    policy->Touch(7);
    std::set<uint64_t> left;
    while (const auto key = policy->Victim([](uint64_t) { return true; })) {
      EXPECT_TRUE(left.insert(*key).second);
      policy->Evict(*key);
    }
    EXPECT_EQ(left.size(), 19u);
    EXPECT_FALSE(left.contains(7));
  }
}

}  // namespace
}  // namespace lorica::lora
