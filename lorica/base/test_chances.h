// For tests of long work that threads of low priority do: how often it would give way. Not part of
// the library.
#pragma once

#include <functional>
#include <thread>

#include "lorica/base/thread_priority.h"

namespace lorica {

// Counted, not timed: a bound in time would be the sanitizers' and the machine's.
inline int64_t ChancesIn(const std::function<void()>& work) {
  int64_t chances = 0;
  std::thread([&] {
    LowerThreadPriority(ThreadPriority::kSoon);
    work();
    chances = ChancesToGiveWay();
  }).join();
  return chances;
}

}  // namespace lorica
