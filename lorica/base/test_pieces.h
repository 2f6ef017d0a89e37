// For tests of long work that threads of low priority do: how long it keeps a processor. Not part
// of the library.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "lorica/base/thread_priority.h"

namespace lorica {

// A tick of the system's clock; ten times what GiveWay aims at.
inline constexpr std::chrono::milliseconds kLongestPiece{1};

// The longest piece of `work`, by the best of some runs: the machine below a virtual one may take a
// processor away unseen.
inline std::chrono::nanoseconds LongestPieceOf(const std::function<void()>& work) {
  auto best = std::chrono::nanoseconds::max();
  for (int run = 0; run < 5 && best > kLongestPiece; ++run) {
    std::thread([&] {
      LowerThreadPriority(ThreadPriority::kSoon);
      work();
      best = std::min(best, LongestPiece());
    }).join();
  }
  return best;
}

}  // namespace lorica
