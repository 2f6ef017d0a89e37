// How often operator new was called, in test programs that include counting_new.inc: what
// "allocates nothing" is shown with.
#pragma once

#include <cstdint>

namespace lorica {

int64_t AllocationCount();  // by this thread
int64_t AllocationCountOfAllThreads();

}  // namespace lorica
