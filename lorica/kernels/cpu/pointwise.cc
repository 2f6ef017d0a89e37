#include <cstdint>

#include "lorica/kernels/cpu/kernel_table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lorica/kernels/cpu/pointwise.cc"
#include "lorica/kernels/cpu/targets.h"
// Highway needs its target list first.
#include "hwy/foreach_target.h"
#include "lorica/kernels/cpu/pointwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::kernels::cpu::HWY_NAMESPACE {

void FillPointwise(KernelTable* table) {
  table->rms_norm = &RmsNorm;
  table->rope = &Rope;
  table->swi_glu = &SwiGlu;
  table->logit_stats = &LogitStats;
}

}  // namespace lorica::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lorica::kernels::cpu {

FillKernels PointwiseKernels(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return HWY_CHOOSE_FALLBACK(FillPointwise);
    case Isa::kSse4:
      return HWY_CHOOSE_SSE4(FillPointwise);
    case Isa::kAvx2:
      return HWY_CHOOSE_AVX2(FillPointwise);
    case Isa::kAvx512:
    case Isa::kAvx512Bf16:
      return HWY_CHOOSE_AVX3(FillPointwise);
  }
  return nullptr;
}

}  // namespace lorica::kernels::cpu
#endif
