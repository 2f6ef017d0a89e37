// The priority of a thread that must not take time from the threads that compute a step.
#pragma once

namespace lorica {

enum class ThreadPriority {
  kBackground,  // nobody waits for it: a seventieth of a processor that others would fill
  kSoon,        // a request waits for it alone: a quarter of such a processor
};

// Lowers the calling thread for good. A refusal costs fairness, nothing else.
void LowerThreadPriority(ThreadPriority priority);

}  // namespace lorica
