// Kernels on the bf16 dot of AVX512-BF16 (vdpbf16ps), for ActivationType::kBf16 on bf16 panels.
// With FTZ and DAZ set a lane of the dot is fma(high half), then fma(low half): an f32 path on
// bf16-rounded x gives the same bits, and DotEqualsFma() looks whether that holds on the
// processor at hand. Pure functions; any thread; the instruction set must be there.
//
// x is packed as pairs of bf16, the even k in the high half as in the panels: [pairs][rows of a
// tile] for base tiles, [pairs] dense for the shrink.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lorica/base/thread_pool.h"
#include "lorica/kernels/cpu/tile_args.h"

namespace lorica::kernels::cpu {

inline constexpr int kDotTileRows = 16;

// Registers decide: R * P accumulators, P rows of weights and one of x, of 32.
constexpr bool DotTileFits(int rows, int panels) {
  return rows >= 1 && rows <= kDotTileRows && rows * panels + panels <= 30;
}

// How far ahead of its use a line of weights is asked for by a tile that walks all of K alone; best
// of those tried.
constexpr int64_t DotPrefetchBytes(int panels) { return panels == 2 ? 4096 : 2048; }

inline constexpr int kDotShrinkRows = 4;
inline constexpr int kDotShrinkTiles = 4;
// How many rank tiles one pass takes for this many rows: 4 or 2.
constexpr int DotShrinkTilesFor(int rows) { return rows > 2 ? 2 : 4; }

struct DotShrinkArgs {
  const uint32_t* x[kDotShrinkRows] = {};  // dense rows of pairs
  int64_t pairs = 0;                       // even
  const std::byte* a[kDotShrinkTiles] = {};
  float scale[kDotShrinkTiles] = {};
  float* s = nullptr;  // [rows][tiles * 8], s_stride floats apart
  int64_t s_stride = 0;
};
using DotShrinkFunction = void (*)(const DotShrinkArgs&);

struct DotPackArgs {
  const float* x = nullptr;  // a row, k floats
  int64_t k = 0;
  IndexRange pairs;           // to pack; zeros past k
  uint32_t* tile = nullptr;   // where pair 0 of this row goes
  int64_t tile_rows = 0;      // from pair to pair
  uint32_t* dense = nullptr;  // also the row's pairs as they come; null: not wanted
  float* rounded = nullptr;   // also the row rounded to bf16, as k floats; null: not wanted
};

struct DotKernels {
  // `panels` is 1, 2 or 4 and the tile fits.
  TileFunction (*tile)(int rows, int panels) = nullptr;
  // `rows` up to kDotShrinkRows, `tiles` 1, 2 or 4, at most DotShrinkTilesFor(rows).
  DotShrinkFunction (*shrink)(int rows, int tiles) = nullptr;
  void (*pack)(const DotPackArgs&) = nullptr;
};
// Null where they were not compiled.
const DotKernels* CompiledDotKernels();

// A few thousand random lanes over all exponents, each a dot and two FMAs.
bool DotEqualsFma();

}  // namespace lorica::kernels::cpu
