// Lowering: a fused plan and the addresses of a step become the words of lora_program.h. Every
// choice of the kernel is made here: chunk widths, runs of rows, where a core begins. Plain
// functions of their arguments; the engine thread calls them once a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "lorica/base/status.h"
#include "lorica/kernels/ascend/aligned_vector.h"
#include "lorica/lora/plan.h"

namespace lorica::ascend {

enum class Arch { k2201, k2002 };

// What the plan is told about a chip of `cores` cube cores.
lora::PlanLimits LimitsOf(int32_t cores, Arch arch = Arch::k2201);
// The same for lora_linear_split.cpp (arch 2201).
lora::PlanLimits SplitLimitsOf(int32_t cores);

struct LoweringInput {
  Arch arch = Arch::k2201;
  const lora::CallSites* call = nullptr;
  const lora::LoraPlan* plan = nullptr;  // of LimitsOf or SplitLimitsOf
  const lora::SegmentTable* segments = nullptr;
  const lora::WeightTable* table = nullptr;  // of AscendTilePacker's tiles
  std::span<const uint64_t> y;               // of each part, its address on the device, [rows, N]
  // Of split plans: plan->s_floats floats on the device, for the sums of slices.
  uint64_t sums = 0;
  // Where a tile of the table lies on the device; null: where the table says.
  std::function<uint64_t(const std::byte*)> translate;
};

struct LoraProgram {
  AlignedVector<uint64_t> words;
  int32_t cores = 0;  // that have items; the launch's blocks
  int64_t items = 0;
};

// OUT_OF_RANGE with the limit and the figure for what does not fit the chip: K, N, a rank, rows
// times ranks, an address that is not aligned to 32 bytes. UNIMPLEMENTED, for a plan of whole items
// on arch 2201, for a tile whose weight in the table is not the scale that is in its B (a mix of
// adapters by other weights): split items take any weight.
Status Lower(const LoweringInput& input, LoraProgram* program);

}  // namespace lorica::ascend
