// Host entries of the cube kernels on a real chip; defined in lora_linear_launch.cpp, which only
// the vendor's compiler takes.
#pragma once

#include <cstdint>

namespace lorica::ascend {

// By element type, by how y is added to, and from kSplitF16 on the form of the plan.
enum class DeviceKernel : uint32_t {
  kF16,
  kBf16,
  kF16Atomic,
  kBf16Atomic,
  kF16F32,
  kBf16F32,
  kSplitF16,
  kSplitBf16,
  kSplitF16F32,
  kSplitBf16F32
};

}  // namespace lorica::ascend

// Addresses on the device, a stream of the runtime. They return at once. A split kernel waits for
// all its blocks: nothing else may hold cores of the chip for ever.
extern "C" void lorica_launch_lora_linear(uint32_t kernel, uint32_t blocks, void* stream,
                                          uint8_t* x, uint8_t* program, uint8_t* identity);
extern "C" void lorica_launch_base_linear(uint32_t bf16, uint32_t blocks, void* stream, uint8_t* x,
                                          uint8_t* w, uint8_t* y, uint8_t* program);
