// Kernels on quantised weights: int8 activations times bytes or nibbles, sums of int32. An int32
// sum is exact, and what follows it (scales, sums over blocks and groups) is one fixed order of
// f32 multiplications and additions without FMA: every set of instructions gives the same bits,
// whatever the tile. Pure functions; any thread; the instruction set must be there.
//
// Panels of 16 columns, K padded to blocks of 32. Bytes: a 64-byte row per quad of k, 16 lanes of
// 4 bytes. Nibbles: a 64-byte row per two quads, the first in the low halves. Both hold
// q = w / d + zero (quantize.h), so that they are unsigned. Six bits: of each half of a block two
// such rows of low nibbles, then a row of their bits 4 and 5, the first quad's lowest. Scales lie
// apart: kI8 16 floats a panel; else a block's 16 f16 of d, then, for Q4_1, 16 of m. K types: of
// each super-block 16 f16 of d, then, for Q4_K, 16 of m; then of each of its blocks 32 int8, the
// small scales of 16 columns and their small minima (Q4_K), or those of its two halves (Q6_K).
//
// x: [quads][rows of a tile] of 4 int8; of each block [blocks][rows]: its scale, its sum, and
// -128 times its sum of integers; of each half of a block, -32 times its sum of integers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lorica/base/dtype.h"
#include "lorica/base/super_block.h"
#include "lorica/base/thread_pool.h"
#include "lorica/kernels/cpu/kernel_table.h"
#include "lorica/kernels/quantize.h"

namespace lorica::kernels::cpu {

inline constexpr int64_t kBlockQuads = kQuantBlock / 4;
// Rows of 64 bytes a block of six bits takes.
inline constexpr int kSixBitLines = 6;
inline constexpr int64_t kBlocksOfSuper = kSuperBlock / kQuantBlock;

constexpr int64_t QuantPanelBytes(DType storage, int64_t k) {
  const int64_t bytes = QuantBlocks(k) * kQuantBlock * kPanelColumns;
  if (storage == DType::kQ6_K) return bytes / 4 * 3;
  return IsFourBit(storage) ? bytes / 2 : bytes;
}
// Bytes of a block's scales in a panel, and, for K types, of a super-block's own.
constexpr int64_t BlockScaleBytes(DType storage) {
  return kPanelColumns * (storage == DType::kQ4_1 ? 4 : 2);
}
constexpr int64_t SuperScaleBytes(DType storage) {
  return kPanelColumns * (storage == DType::kQ4_K ? 4 : 2);
}
// From super-block to super-block in a panel's scales.
constexpr int64_t SuperStride(DType storage) {
  return SuperScaleBytes(storage) + kBlocksOfSuper * BlockScaleBytes(storage);
}
// Where the small scales of a block begin; those of its super-block, a stride apart, come before.
constexpr int64_t SubScalesAt(DType storage, int64_t block) {
  return (block / kBlocksOfSuper + 1) * SuperScaleBytes(storage) + block * BlockScaleBytes(storage);
}
constexpr int64_t QuantScaleBytes(DType storage, int64_t k) {
  if (storage == DType::kI8) return kPanelColumns * 4;
  const int64_t blocks = QuantBlocks(k);
  if (!IsSuperBlocked(storage)) return blocks * BlockScaleBytes(storage);
  return (blocks + kBlocksOfSuper - 1) / kBlocksOfSuper * SuperStride(storage);
}

struct QuantTileArgs {
  const int32_t* x = nullptr;             // [quads][R]
  const int32_t* offsets = nullptr;       // [blocks][R]
  const int32_t* half_offsets = nullptr;  // [blocks][2][R]
  const float* x_scale = nullptr;         // [blocks][R]
  const float* x_sum = nullptr;           // [blocks][R]
  const std::byte* w = nullptr;           // first panel
  int64_t panel_bytes = 0;                // from panel to panel
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
  int32_t* half_offsets = nullptr;
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
