#include "lorica/base/thread_pool.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cfloat>
#include <numeric>

namespace lorica {
namespace {

TEST(SplitRange, CoversEveryIndexOnceInOrder) {
  EXPECT_TRUE(rc::check([] {
    const auto n = *rc::gen::inRange<int64_t>(0, 1000);
    const auto parts = *rc::gen::inRange<int64_t>(1, 20);
    int64_t next = 0;
    for (int64_t i = 0; i < parts; ++i) {
      const IndexRange range = SplitRange(n, parts, i);
      RC_ASSERT(range.begin == next);
      RC_ASSERT(range.size() >= n / parts && range.size() <= n / parts + 1);
      next = range.end;
    }
    RC_ASSERT(next == n);
  }));
}

TEST(ThreadPool, PhasesSeeEachOthersWrites) {
  for (int threads = 1; threads <= 4; ++threads) {
    ThreadPool pool(threads);
    std::vector<int64_t> values(static_cast<size_t>(threads));
    std::vector<int64_t> sums(static_cast<size_t>(threads));
    for (int round = 0; round < 300; ++round) {
      pool.Run([&](const TeamMember& member) {
        values[static_cast<size_t>(member.thread)] = round + member.thread;
        member.Sync();
        sums[static_cast<size_t>(member.thread)] =
            std::accumulate(values.begin(), values.end(), int64_t{0});
        member.Sync();
        values[static_cast<size_t>(member.thread)] = -1;
      });
      for (int64_t sum : sums) {
        EXPECT_EQ(sum, int64_t{threads} * round + threads * (threads - 1) / 2);
      }
    }
  }
}

TEST(ThreadPool, EveryThreadFlushesDenormalsAndTheCallersModeComesBack) {
  ThreadPool pool(2);
  volatile float tiny = FLT_MIN;
  std::vector<float> halves(2, 1.0f);
  pool.Run(
      [&](const TeamMember& member) { halves[static_cast<size_t>(member.thread)] = tiny * 0.5f; });
  EXPECT_EQ(halves[0], 0.0f);
  EXPECT_EQ(halves[1], 0.0f);
  EXPECT_GT(tiny * 0.5f, 0.0f);
}

}  // namespace
}  // namespace lorica
