#include "lorica/base/thread_priority.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <thread>

#include "lorica/base/test_pieces.h"

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

TEST(ThreadPriority, AThreadThatIsNotLoweredHasNoPieces) {
  std::thread([] {
    for (int i = 0; i < 10; ++i) {
      BusyFor(std::chrono::microseconds(200));
      GiveWay();
    }
    LowerThreadPriority(ThreadPriority::kSoon);
    EXPECT_LT(LongestPiece(), std::chrono::milliseconds(1));
  }).join();
}

TEST(ThreadPriority, ThePieceIsWhatLiesBetweenTwoCalls) {
  const auto piece = [](std::chrono::microseconds busy) {
    return LongestPieceOf([busy] {
      for (int i = 0; i < 50; ++i) {
        BusyFor(busy);
        GiveWay();
      }
    });
  };
  EXPECT_LT(piece(std::chrono::microseconds(20)), kLongestPiece);
  std::thread([] {
    LowerThreadPriority(ThreadPriority::kSoon);
    const std::clock_t begin = std::clock();
    while (std::clock() - begin < CLOCKS_PER_SEC / 50) {
    }
    GiveWay();
    EXPECT_GT(LongestPiece(), std::chrono::milliseconds(1));
  }).join();
}

}  // namespace
}  // namespace lorica
