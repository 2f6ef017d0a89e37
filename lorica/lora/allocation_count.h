// How often this thread has called operator new, in the test program alone: what "allocates
// nothing" is shown with.
#pragma once

#include <cstdint>

namespace lorica::lora {

int64_t AllocationCount();

}  // namespace lorica::lora
