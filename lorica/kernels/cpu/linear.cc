#include <algorithm>
#include <chrono>
#include <cstdint>

#include "lorica/base/check.h"
#include "lorica/base/thread_pool.h"
#include "lorica/kernels/cpu/dot.h"
#include "lorica/kernels/cpu/kernel_table.h"
#include "lorica/kernels/cpu/packing.h"
#include "lorica/kernels/cpu/quant.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lorica/kernels/cpu/linear.cc"
#include "lorica/kernels/cpu/targets.h"
// Highway needs its target list first.
#include "hwy/foreach_target.h"
#include "lorica/kernels/cpu/gemm-inl.h"
#include "lorica/kernels/cpu/linear-inl.h"
#include "lorica/kernels/cpu/lora-inl.h"
#include "lorica/kernels/cpu/output_block-inl.h"
#include "lorica/kernels/cpu/packed_input-inl.h"
#include "lorica/kernels/cpu/shrink-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lorica::kernels::cpu::HWY_NAMESPACE {

constexpr Isa ThisIsa() {
  return HWY_TARGET == HWY_AVX3   ? Isa::kAvx512
         : HWY_TARGET == HWY_AVX2 ? Isa::kAvx2
         : HWY_TARGET == HWY_SSE4 ? Isa::kSse4
                                  : Isa::kScalar;
}
void LoraLinear(const LinearParams& p, const LinearTiling& tiling, const TeamMember& member) {
  RunLinear(p, {tiling, nullptr, QuantKernelsFor(ThisIsa())}, member);
}
void FillLinear(KernelTable* table) { table->lora_linear = &LoraLinear; }

#if HWY_TARGET == HWY_AVX3
void LoraLinearDot(const LinearParams& p, const LinearTiling& tiling, const TeamMember& member) {
  RunLinear(p, {tiling, CompiledDotKernels(), QuantKernelsFor(ThisIsa())}, member);
}
void FillLinearDot(KernelTable* table) { table->lora_linear = &LoraLinearDot; }
#endif

}  // namespace lorica::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lorica::kernels::cpu {

int64_t PlainInputFloats(int64_t rows, int64_t k) {
  // Packed x, two row maps for rows that are not in segment order, and rounded rows for shrink. For
  // the dot, packed x takes half its place and the same pairs row by row the other half.
  return rows * (Pairs(k) * 2 + 2 + k);
}

int64_t PackedInputFloats(int64_t rows, int64_t k) {
  // Quantised x: quads of bytes and five numbers a block.
  return PlainInputFloats(rows, k) + rows * QuantBlocks(k) * (kBlockQuads + 5);
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
    case Isa::kAvx512Bf16:
      return HWY_CHOOSE_AVX3(FillLinearDot);
  }
  return nullptr;
}

}  // namespace lorica::kernels::cpu
#endif
