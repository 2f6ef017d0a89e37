// What one register tile of a base product is given: a run of k pairs of R packed rows of x against
// P panels. Plain data, filled anew for each call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lorica::kernels::cpu {

struct TileArgs {
  const std::byte* x = nullptr;  // [pairs][R], f32 pairs or, for the dot, bf16 pairs
  const std::byte* w = nullptr;  // first panel
  int64_t panel_bytes = 0;       // from panel to panel
  int64_t pairs = 0;             // begins at a multiple of kChainPairs
  float* acc = nullptr;          // in and out: [R][P * 16]
  // Weights to fetch meanwhile: in each panel, `ahead_step` bytes on with each pair.
  const std::byte* ahead = nullptr;
  int64_t ahead_step = 0;
  // Other lines to fetch meanwhile, one a pair; at least one.
  const std::byte* const* prefetch = nullptr;
  const std::byte* const* prefetch_last = nullptr;
};
using TileFunction = void (*)(const TileArgs&);

}  // namespace lorica::kernels::cpu
