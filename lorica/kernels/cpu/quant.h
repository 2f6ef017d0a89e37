// Kernels on quantised weights: int8 activations times bytes or nibbles, sums of int32. An int32
// sum is exact, and what follows it (scales, sums over blocks and groups) is one fixed order of
// f32 multiplications and additions without FMA: every set of instructions gives the same bits,
// whatever the tile. Pure functions; any thread; the instruction set must be there.
//
// Panels of 16 columns, K padded to blocks of 32. Bytes: a 64-byte row per quad of k, 16 lanes of
// 4 bytes. Nibbles: a 64-byte row per two quads, the first in the low halves. Both hold
// q = w / d + zero (quantize.h), so that they are unsigned. Scales lie apart: kI8 16 floats a
// panel; else a block's 16 f16 of d, then, for Q4_1, 16 of m.
//
// x: [quads][rows of a tile] of 4 int8; of each block [blocks][rows]: its scale, its sum, and
// -128 times its sum of integers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lorica/base/dtype.h"
#include "lorica/base/thread_pool.h"
#include "lorica/kernels/cpu/kernel_table.h"
#include "lorica/kernels/quantize.h"

namespace lorica::kernels::cpu {

inline constexpr int64_t kBlockQuads = kQuantBlock / 4;

constexpr int64_t QuantPanelBytes(DType storage, int64_t k) {
  const int64_t bytes = QuantBlocks(k) * kQuantBlock * kPanelColumns;
  return storage == DType::kI8 || storage == DType::kQ8_0 ? bytes : bytes / 2;
}
constexpr int64_t QuantScaleBytes(DType storage, int64_t k) {
  if (storage == DType::kI8) return kPanelColumns * 4;
  return QuantBlocks(k) * kPanelColumns * (storage == DType::kQ4_1 ? 4 : 2);
}

struct QuantTileArgs {
  const int32_t* x = nullptr;        // [quads][R]
  const int32_t* offsets = nullptr;  // [blocks][R]
  const float* x_scale = nullptr;    // [blocks][R]
  const float* x_sum = nullptr;      // [blocks][R]
  const std::byte* w = nullptr;      // first panel
  int64_t panel_bytes = 0;           // from panel to panel
  const std::byte* scales = nullptr;
  int64_t scale_bytes = 0;  // from panel to panel
  int64_t blocks = 0;
  float* acc = nullptr;  // out: [R][P * 16]
  // Lines to fetch meanwhile, one a quad; at least one.
  const std::byte* const* prefetch = nullptr;
  const std::byte* const* prefetch_last = nullptr;
};
using QuantTileFunction = void (*)(const QuantTileArgs&);

inline constexpr int kQuantTileRows = 16;

struct QuantTiling {
  int rows = 1;
  int panels = 1;
};

// Blocks of one row of x: where the row begins in each array of its tile of `rows`.
struct QuantPackArgs {
  const float* x = nullptr;
  int64_t k = 0;
  IndexRange blocks;  // to pack; zeros past k
  int64_t rows = 0;   // from quad to quad, and from block to block
  int32_t* quads = nullptr;
  int32_t* offsets = nullptr;
  float* scales = nullptr;
  float* sums = nullptr;
};

struct QuantKernels {
  const char* name = nullptr;
  // The tile of this many rows and panels (1, 2 or 4); null where it does not fit.
  QuantTileFunction (*tile)(DType storage, int rows, int panels) = nullptr;
  // What suits a number of rows best.
  QuantTiling (*choose)(DType storage, int64_t rows) = nullptr;
  void (*pack)(const QuantPackArgs&) = nullptr;
};

// Null where a set was not compiled. Sets: plain C++; SSE4.1; AVX2; AVX-512 with VNNI.
const QuantKernels* ScalarQuantKernels();
const QuantKernels* Sse4QuantKernels();
const QuantKernels* Avx2QuantKernels();
const QuantKernels* VnniQuantKernels();
// What the tables of an instruction set use on this machine.
const QuantKernels* QuantKernelsFor(Isa isa);

}  // namespace lorica::kernels::cpu
