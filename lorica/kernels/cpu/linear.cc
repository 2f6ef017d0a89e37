#include <algorithm>
#include <chrono>
#include <cstdint>

#include "lorica/base/check.h"
#include "lorica/base/thread_pool.h"
#include "lorica/kernels/cpu/kernel_table.h"
#include "lorica/kernels/cpu/packing.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lorica/kernels/cpu/linear.cc"
#include "lorica/kernels/cpu/targets.h"
// Highway needs its target list first.
#include "hwy/foreach_target.h"
#include "lorica/kernels/cpu/gemm-inl.h"
#include "lorica/kernels/cpu/linear-inl.h"
#include "lorica/kernels/cpu/lora-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::kernels::cpu::HWY_NAMESPACE {

void FillLinear(KernelTable* table) { table->lora_linear = &LoraLinear; }

}  // namespace lorica::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lorica::kernels::cpu {

int64_t PackedInputFloats(int64_t rows, int64_t k) {
  // Packed x, two row maps for rows that are not in segment order, and rounded rows for shrink.
  return rows * (Pairs(k) * 2 + 2 + k);
}

FillKernels LinearKernels(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return HWY_CHOOSE_FALLBACK(FillLinear);
    case Isa::kSse4:
      return HWY_CHOOSE_SSE4(FillLinear);
    case Isa::kAvx2:
      return HWY_CHOOSE_AVX2(FillLinear);
    case Isa::kAvx512:
      return HWY_CHOOSE_AVX3(FillLinear);
  }
  return nullptr;
}

}  // namespace lorica::kernels::cpu
#endif
