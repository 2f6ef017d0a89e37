// The priority of a thread that must not take time from the threads that compute a step, and the
// pieces in which it works. A thread lowers itself; what it does then is its own, so nothing here
// is shared between threads.
#pragma once

#include <chrono>
#include <cstdint>

namespace lorica {

enum class ThreadPriority {
  kBackground,  // nobody waits for it: what others leave of a processor, and a 340th where they do
                // not
  kSoon,        // a request waits for it alone: a quarter of a processor that others would fill
};

// Lowers the calling thread for good. A refusal costs fairness, nothing else.
void LowerThreadPriority(ThreadPriority priority);

// For long work that such a thread may do, called after each few microseconds of it: once a piece
// of 100 us is over, whoever waits for this processor has it. Nothing on a thread that was not
// lowered.
void GiveWay();

// While it lives, the calling thread works for nobody who waits, so it sleeps between pieces, if
// shortly; kBackground always does, for longer.
class ScopedUnhurried {
 public:
  ScopedUnhurried();
  ~ScopedUnhurried();
  ScopedUnhurried(const ScopedUnhurried&) = delete;
  ScopedUnhurried& operator=(const ScopedUnhurried&) = delete;

 private:
  const std::chrono::microseconds before_;
};

// How often the calling thread has called GiveWay since it was lowered.
int64_t ChancesToGiveWay();

}  // namespace lorica
