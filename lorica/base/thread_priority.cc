#include "lorica/base/thread_priority.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

namespace lorica {
namespace {

using Clock = std::chrono::steady_clock;

// Linux weighs a thread by 1.25 to the power of -nice.
constexpr int32_t kNiceSoon = 5;
constexpr int32_t kNiceLowest = 19;

// The shortest slice that Linux gives, which it ends at a tick alone, each 1 to 4 ms: a thread that
// does not end its slices itself holds a step up for a tick.
constexpr std::chrono::microseconds kPiece{100};

// Between pieces. A thread that only yields has first a right to what it waited for, up to 4 ms at
// once. And a processor that is idle for 0.5 ms now and then draws a compute thread over that
// shares one with another; after less the system does not look.
constexpr std::chrono::microseconds kRestOfBackground{1000};
// The system makes some 55 us of it: what a request needs may queue behind the thread's work.
constexpr std::chrono::microseconds kRestOfUnhurried{1};

// The kernel's struct sched_attr, first version; the C library of Debian 12 has none.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0;  // of SCHED_OTHER the slice, since Linux 6.12; before that ignored
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};

struct Pieces {
  bool lowered = false;
  std::chrono::microseconds rest{0};  // none: it yields
  Clock::time_point began;            // the one that the thread is at
  int64_t chances = 0;
};
thread_local Pieces pieces;

}  // namespace

// Not nice 19: a processor that runs a SCHED_IDLE thread counts as free when a compute thread
// wakes, which else joins another compute thread on that one's processor (docs/decisions/tiers.md).
void LowerThreadPriority(ThreadPriority priority) {
  SchedulingAttributes attributes;
  if (priority == ThreadPriority::kBackground) {
    attributes.policy = SCHED_IDLE;
  } else {
    attributes.nice = kNiceSoon;
  }
  attributes.runtime_ns = std::chrono::nanoseconds(kPiece).count();
  if (syscall(SYS_sched_setattr, 0, &attributes, 0) != 0) {
    // A sandbox may know the older call alone.
    const int nice = priority == ThreadPriority::kBackground ? kNiceLowest : kNiceSoon;
    (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), nice);
  }
  pieces = {.lowered = true, .began = Clock::now()};
  if (priority == ThreadPriority::kBackground) pieces.rest = kRestOfBackground;
}

void GiveWay() {
  if (!pieces.lowered) return;
  ++pieces.chances;
  if (Clock::now() - pieces.began < kPiece) return;
  if (pieces.rest > pieces.rest.zero()) {
    std::this_thread::sleep_for(pieces.rest);
  } else {
    sched_yield();
  }
  pieces.began = Clock::now();
}

ScopedUnhurried::ScopedUnhurried() : before_(pieces.rest) {
  pieces.rest = std::max(pieces.rest, kRestOfUnhurried);
}
ScopedUnhurried::~ScopedUnhurried() { pieces.rest = before_; }

int64_t ChancesToGiveWay() { return pieces.chances; }

}  // namespace lorica
