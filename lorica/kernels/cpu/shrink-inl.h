// The shrinks of one worker, item by item of the plan, and the walk that hands them out in pieces
// whose lines of A are fetched while something else computes.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lorica/base/thread_pool.h"
#include "lorica/kernels/cpu/dot.h"
#include "lorica/kernels/cpu/lora-inl.h"
#include "lorica/kernels/cpu/packed_input-inl.h"
#include "lorica/kernels/cpu/packing.h"

#if defined(LORICA_KERNELS_CPU_SHRINK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_KERNELS_CPU_SHRINK_INL_H_
#undef LORICA_KERNELS_CPU_SHRINK_INL_H_
#else
#define LORICA_KERNELS_CPU_SHRINK_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace lorica::kernels::cpu::HWY_NAMESPACE {

inline bool AllBf16(std::span<const lora::TileRef> tiles) {
  return std::all_of(tiles.begin(), tiles.end(),
                     [](const lora::TileRef& tile) { return tile.dtype == DType::kBF16; });
}

// Whether any adapter of the step has factors that the dot cannot read.
inline bool NeedsF32Shrink(const LinearParams& p) {
  for (const lora::Segment& segment : p.segments->segments()) {
    for (const LinearPart& part : p.parts) {
      if (!AllBf16(p.table->Entry(segment.slot, part.site).tiles)) return true;
    }
  }
  return false;
}

// The same sums on the bf16 dot.
inline void DotShrinkItemRows(const LinearState& state, const lora::ShrinkItem& item,
                              std::span<const lora::TileRef> tiles) {
  for (int32_t row = item.row_begin; row < item.row_end;) {
    const int rows = std::min(item.row_end - row, kDotShrinkRows);
    DotShrinkArgs args;
    for (int r = 0; r < rows; ++r) {
      args.x[r] = state.dot_rows + (row + r + state.order.shift) * state.pairs;
    }
    args.pairs = state.pairs;
    args.s_stride = item.s_stride;
    float* s = state.p->s_scratch + item.s_offset + int64_t{row - item.row_begin} * item.s_stride;
    for (int32_t t = item.tile_begin; t < item.tile_end;) {
      int now = DotShrinkTilesFor(rows);
      while (now > item.tile_end - t) now /= 2;
      for (int i = 0; i < now; ++i) {
        args.a[i] = tiles[static_cast<size_t>(t + i)].address;
        args.scale[i] = tiles[static_cast<size_t>(t + i)].scale;
      }
      args.s = s + (t - item.tile_begin) * kTileRanks;
      state.dot->shrink(rows, now)(args);
      t += now;
    }
    row += rows;
  }
}

inline void ShrinkItemRows(const LinearState& state, const lora::ShrinkItem& item) {
  const LinearParams& p = *state.p;
  const lora::Segment& segment = p.segments->segments()[static_cast<size_t>(item.segment)];
  const LinearPart& part = p.parts[static_cast<size_t>(item.part)];
  const std::span<const lora::TileRef> tiles = p.table->Entry(segment.slot, part.site).tiles;
  if (state.dot != nullptr && AllBf16(tiles)) return DotShrinkItemRows(state, item, tiles);
  for (int32_t row = item.row_begin; row < item.row_end;) {
    const int rows = std::min(item.row_end - row, MostShrinkRows());
    ShrinkArgs args;
    for (int r = 0; r < rows; ++r) args.x[r] = state.ShrinkInput(row + r + state.order.shift);
    args.k = p.k;
    args.s_stride = item.s_stride;
    float* s = p.s_scratch + item.s_offset + int64_t{row - item.row_begin} * item.s_stride;
    for (int32_t t = item.tile_begin; t < item.tile_end;) {
      const DType dtype = tiles[static_cast<size_t>(t)].dtype;
      int now = ShrinkTilesFor(rows);
      while (now > item.tile_end - t) now /= 2;
      for (int i = 0; i < now; ++i) {
        const lora::TileRef& tile = tiles[static_cast<size_t>(t + i)];
        if (tile.dtype != dtype) now = 1;
        args.a[i] = tile.address;
        args.scale[i] = tile.scale;
      }
      args.s = s + (t - item.tile_begin) * kTileRanks;
      Shrink(dtype, rows, now, args);
      t += now;
    }
    row += rows;
  }
}

inline std::span<const lora::TileRef> TilesOf(const LinearParams& p, const lora::ShrinkItem& item) {
  const lora::Segment& segment = p.segments->segments()[static_cast<size_t>(item.segment)];
  return p.table->Entry(segment.slot, p.parts[static_cast<size_t>(item.part)].site).tiles;
}

// This worker's items, those of a plan made for more workers included, in pieces of some tiles.
class ShrinkWalk {
 public:
  ShrinkWalk(const LinearParams& p, const TeamMember& member)
      : p_(p), member_(member), worker_(member.thread) {
    if (worker_ < p.plan->workers) Enter();
    Skip();
  }
  bool done() const { return worker_ >= p_.plan->workers; }
  // At most `tiles` tiles of the item at hand.
  lora::ShrinkItem Peek(int32_t tiles) const {
    lora::ShrinkItem piece = p_.plan->shrinks[static_cast<size_t>(item_)];
    piece.s_offset += int64_t{tile_ - piece.tile_begin} * kTileRanks;
    piece.tile_begin = tile_;
    piece.tile_end = std::min(piece.tile_end, tile_ + tiles);
    return piece;
  }
  // Moves past what Peek returned.
  void Pass(const lora::ShrinkItem& piece) {
    tile_ = piece.tile_end;
    if (tile_ < p_.plan->shrinks[static_cast<size_t>(item_)].tile_end) return;
    ++item_;
    Skip();
  }

 private:
  void Enter() {
    item_ = p_.plan->shrink_begin[static_cast<size_t>(worker_)];
    end_ = p_.plan->shrink_begin[static_cast<size_t>(worker_) + 1];
  }
  void Skip() {
    while (!done() && item_ == end_) {
      worker_ += member_.threads;
      if (!done()) Enter();
    }
    if (!done()) tile_ = p_.plan->shrinks[static_cast<size_t>(item_)].tile_begin;
  }

  const LinearParams& p_;
  const TeamMember& member_;
  int32_t worker_;
  int32_t item_ = 0;
  int32_t end_ = 0;
  int32_t tile_ = 0;
};

}  // namespace lorica::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
