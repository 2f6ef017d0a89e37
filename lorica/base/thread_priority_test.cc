#include "lorica/base/thread_priority.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "lorica/base/test_chances.h"

namespace lorica {
namespace {

void BusyFor(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST(ThreadPriority, LowersTheCallingThreadAlone) {
  std::thread([] {
    LowerThreadPriority(ThreadPriority::kBackground);
    EXPECT_EQ(sched_getscheduler(0), SCHED_IDLE);
  }).join();
  std::thread([] {
    LowerThreadPriority(ThreadPriority::kSoon);
    EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
    EXPECT_GE(getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())), 5);
  }).join();
  EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
}

TEST(ThreadPriority, OnlyALoweredThreadHasPieces) {
  const auto work = [] {
    for (int i = 0; i < 10; ++i) GiveWay();
  };
  EXPECT_EQ(ChancesIn(work), 10);
  std::thread([&] {
    work();
    EXPECT_EQ(ChancesToGiveWay(), 0);
  }).join();
}

// A rest is at least what was asked for, so a piece of 100 us is seen to end.
TEST(ThreadPriority, WhoeverIsUnhurriedSleepsBetweenPieces) {
  const auto switches = [] {
    rusage usage = {};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;  // each a sleep: to yield counts as none
  };
  std::thread([&] {
    LowerThreadPriority(ThreadPriority::kSoon);
    const auto pieces = [&] {
      const int64_t before = switches();
      for (int i = 0; i < 5; ++i) {
        BusyFor(std::chrono::microseconds(200));
        GiveWay();
      }
      return switches() - before;
    };
    EXPECT_EQ(pieces(), 0);
    {
      const ScopedUnhurried unhurried;
      EXPECT_EQ(pieces(), 5);
    }
    EXPECT_EQ(pieces(), 0);
  }).join();
}

}  // namespace
}  // namespace lorica
