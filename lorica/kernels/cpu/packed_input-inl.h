// What one call of LoraLinear knows on each thread, and the packing of x: done once, by all threads
// together, into register tiles of rows.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lorica/base/thread_pool.h"
#include "lorica/kernels/cpu/dot.h"
#include "lorica/kernels/cpu/gemm-inl.h"
#include "lorica/kernels/cpu/packing.h"
#include "lorica/kernels/cpu/quant_input-inl.h"

#if defined(LORICA_KERNELS_CPU_PACKED_INPUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_KERNELS_CPU_PACKED_INPUT_INL_H_
#undef LORICA_KERNELS_CPU_PACKED_INPUT_INL_H_
#else
#define LORICA_KERNELS_CPU_PACKED_INPUT_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace lorica::kernels::cpu::HWY_NAMESPACE {

// The rows cut into register tiles of nearly equal height.
struct RowTiles {
  int64_t rows = 0;
  int64_t count = 0;

  RowTiles() = default;
  RowTiles(int64_t rows, int64_t most) : rows(rows), count((rows + most - 1) / most) {}
  IndexRange Tile(int64_t i) const { return SplitRange(rows, count, i); }
  // The tile that holds packed row `row`.
  int64_t Find(int64_t row) const {
    const int64_t base = rows / count;
    const int64_t longer = rows % count * (base + 1);
    return row < longer ? row / (base + 1) : rows % count + (row - longer) / base;
  }
};

// Packed rows are the rows of x in segment order, then the rest. When the
// segments are a run of consecutive rows, x's own order serves, shifted.
struct RowOrder {
  const int32_t* row_of = nullptr;  // null: packed row i is row i
  int64_t shift = 0;                // packed row of place 0 in the segment order
  int64_t Row(int64_t packed) const { return row_of == nullptr ? packed : row_of[packed]; }
};

// Outputs that wait in cache while a run of register tiles walks K.
inline constexpr int64_t kBlockFloats = 4096;

struct LinearState {
  const LinearParams* p = nullptr;
  bool has_lora = false;
  bool x_is_packed = false;  // one row, read where it lies
  int64_t pairs = 0;
  RowTiles tiles;
  int64_t block_tiles = 1;  // register tiles that walk K together
  int panels = 1;
  RowOrder order;
  float* rounded_x = nullptr;       // [rows, K] in packed order: bf16 activations with LoRA
  const DotKernels* dot = nullptr;  // null: f32 FMA. Else packed_x holds pairs of bf16
  uint32_t* dot_rows = nullptr;     // [rows][pairs] in packed order: the dot with LoRA
  QuantInput quant;                 // of parts whose weights are quantised
  bool packs_plain = true;          // x is packed as f32 or for the dot
  Trace* trace = nullptr;           // of thread 0
  std::chrono::steady_clock::duration shrink_time{};
  std::chrono::steady_clock::duration expand_time{};

  // Packed rows of the register tile that begins at a row, and what a pair takes there.
  const std::byte* TileInput(int64_t first_row) const {
    const float* packed = x_is_packed ? p->x : p->packed_x + first_row * pairs * 2;
    return dot != nullptr ? reinterpret_cast<const std::byte*>(DotTile(first_row))
                          : reinterpret_cast<const std::byte*>(packed);
  }
  int64_t PairBytes() const { return dot != nullptr ? 4 : 8; }
  TileFunction TileFor(DType dtype, int rows, int panels) const {
    return dot != nullptr ? dot->tile(rows, panels) : BaseTileFor(dtype, rows, panels);
  }
  int64_t PrefetchBytes(int rows, int panels) const {
    return dot != nullptr ? DotPrefetchBytes(panels) : HWY_NAMESPACE::PrefetchBytes(rows, panels);
  }
  uint32_t* DotTile(int64_t first_row) const {
    return reinterpret_cast<uint32_t*>(p->packed_x) + first_row * pairs;
  }
  bool TileFits(int rows, int panels) const {
    if (quant.kernels != nullptr && !QuantTileFits(*p, *quant.kernels, rows, panels)) return false;
    if (!packs_plain) return true;
    return dot != nullptr ? DotTileFits(rows, panels) : HWY_NAMESPACE::TileFits(rows, panels);
  }
  // A row of x as the shrink reads it: k dense.
  const float* ShrinkInput(int64_t packed) const {
    return rounded_x != nullptr ? rounded_x + packed * p->k
                                : p->x + order.Row(packed) * p->x_stride;
  }
};

// Thread 0 writes the map behind the packed rows; the caller Syncs.
inline void BuildRowMap(const LinearParams& p, int32_t* row_of) {
  int32_t* in_segment = row_of + p.rows;
  std::fill_n(in_segment, p.rows, 0);
  int64_t next = 0;
  for (const int32_t row : p.segments->order()) {
    row_of[next++] = row;
    in_segment[row] = 1;
  }
  for (int64_t row = 0; row < p.rows; ++row) {
    if (in_segment[row] == 0) row_of[next++] = static_cast<int32_t>(row);
  }
}

// Pairs [begin, end) of one row, `stride` floats from pair to pair; zeros past k. `dense`, if not
// null, gets the rounded row as it lies.
inline void PackRow(const LinearParams& p, const float* x, IndexRange pairs, float* to,
                    int64_t stride, float* dense) {
  int64_t pair = pairs.begin;
  if (p.activation_type == ActivationType::kF32) {
    const int64_t whole = std::min(pairs.end, p.k / 2);
    for (; pair < whole; ++pair) std::memcpy(to + pair * stride, x + 2 * pair, 2 * sizeof(float));
  }
  const bool round = p.activation_type == ActivationType::kBf16;
  for (; pair < pairs.end; ++pair) {
    for (int64_t k = 2 * pair; k < 2 * pair + 2; ++k) {
      float value = k < p.k ? x[k] : 0.0f;
      if (round) value = Bf16ToF32(F32ToBf16(value));
      to[pair * stride + k % 2] = value;
      if (dense != nullptr && k < p.k) dense[k] = value;
    }
  }
}

inline void PackDotRow(const LinearState& state, IndexRange tile, int64_t i, IndexRange pairs) {
  const LinearParams& p = *state.p;
  const int64_t packed = tile.begin + i;
  DotPackArgs args;
  args.x = p.x + state.order.Row(packed) * p.x_stride;
  args.k = p.k;
  args.pairs = pairs;
  args.tile = state.DotTile(tile.begin) + i;
  args.tile_rows = tile.size();
  if (state.dot_rows != nullptr) args.dense = state.dot_rows + packed * state.pairs;
  if (state.rounded_x != nullptr) args.rounded = state.rounded_x + packed * p.k;
  state.dot->pack(args);
}

// This thread's range of k pairs of every packed row.
inline void PackInput(const LinearState& state, const TeamMember& member) {
  const LinearParams& p = *state.p;
  const IndexRange pairs = SplitRange(state.pairs, member);
  constexpr int64_t kBlock = 8;  // pairs: one cache line of each row
  for (int64_t t = 0; t < state.tiles.count; ++t) {
    const IndexRange rows = state.tiles.Tile(t);
    for (int64_t i = 0; state.quant.kernels != nullptr && i < rows.size(); ++i) {
      const float* x = p.x + state.order.Row(rows.begin + i) * p.x_stride;
      PackQuantRow(state.quant, rows, i, x, p.k, member);
    }
    if (!state.packs_plain) continue;
    if (state.dot != nullptr) {
      for (int64_t i = 0; i < rows.size(); ++i) PackDotRow(state, rows, i, pairs);
      continue;
    }
    float* tile = p.packed_x + rows.begin * state.pairs * 2;
    for (int64_t begin = pairs.begin; begin < pairs.end; begin += kBlock) {
      const IndexRange block{begin, std::min(begin + kBlock, pairs.end)};
      for (int64_t i = 0; i < rows.size(); ++i) {
        const int64_t packed = rows.begin + i;
        float* dense = state.rounded_x == nullptr ? nullptr : state.rounded_x + packed * p.k;
        PackRow(p, p.x + state.order.Row(packed) * p.x_stride, block, tile + 2 * i, 2 * rows.size(),
                dense);
      }
    }
  }
}

}  // namespace lorica::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
