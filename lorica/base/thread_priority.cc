#include "lorica/base/thread_priority.h"

#include <sys/resource.h>
#include <unistd.h>

namespace lorica {
namespace {

// Linux weighs a thread by 1.25 to the power of -nice.
constexpr int kNiceBackground = 19;
constexpr int kNiceSoon = 5;

}  // namespace

// Linux has priorities of single threads, named by their id.
void LowerThreadPriority(ThreadPriority priority) {
  const int nice = priority == ThreadPriority::kBackground ? kNiceBackground : kNiceSoon;
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), nice);
}

}  // namespace lorica
