// Host entry of the operator on a real chip; defined in lora_linear_launch.cpp, which only the
// vendor's compiler takes.
#pragma once

#include <cstdint>

namespace lorica::ascend {

enum class DeviceKernel : uint32_t { kF16, kBf16, kF16Atomic, kBf16Atomic, kF16F32, kBf16F32 };

}  // namespace lorica::ascend

// Addresses on the device, a stream of the runtime. Returns at once.
extern "C" void lorica_launch_lora_linear(uint32_t kernel, uint32_t blocks, void* stream,
                                          uint8_t* x, uint8_t* program, uint8_t* identity);
