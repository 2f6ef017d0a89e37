// LoraLinear: packs x once, shrinks, then walks this worker's columns panel
// group by panel group: base product, expand, epilogue, while the outputs are in
// cache. Where rows are many, the shrinks run between the first groups.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "lorica/base/check.h"
#include "lorica/base/thread_pool.h"
#include "lorica/kernels/cpu/dot.h"
#include "lorica/kernels/cpu/gemm-inl.h"
#include "lorica/kernels/cpu/kernel_table.h"
#include "lorica/kernels/cpu/lora-inl.h"
#include "lorica/kernels/cpu/output_block-inl.h"
#include "lorica/kernels/cpu/packed_input-inl.h"
#include "lorica/kernels/cpu/packing.h"
#include "lorica/kernels/cpu/shrink-inl.h"

#if defined(LORICA_KERNELS_CPU_LINEAR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_KERNELS_CPU_LINEAR_INL_H_
#undef LORICA_KERNELS_CPU_LINEAR_INL_H_
#else
#define LORICA_KERNELS_CPU_LINEAR_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace lorica::kernels::cpu::HWY_NAMESPACE {

inline LinearTiling ChooseDotTiling(int64_t rows) {
  if (rows <= 6) return {6, 4};
  return {14, 2};
}

inline LinearTiling ChooseTiling(int64_t rows) {
#if HWY_TARGET == HWY_AVX3
  if (rows <= 5) return {5, 4};
  return {12, 2};
#elif HWY_TARGET == HWY_AVX2
  if (rows == 1) return {1, 4};
  if (rows == 2) return {2, 2};
  if (rows == 3) return {3, 2};
  return {6, 1};
#else
  return {kMaxTileRows, 1};
#endif
}

// The panel groups of one worker, part by part.
class GroupWalk {
 public:
  GroupWalk(const LinearState& state, const TeamMember& member) : state_(state), member_(member) {
    Skip();
  }
  bool done() const { return part_ == static_cast<int32_t>(state_.p->parts.size()); }
  PanelGroup Next() {
    PanelGroup group{part_, panels_.begin, state_.panels};
    while (group.panels > panels_.size()) group.panels /= 2;
    panels_.begin += group.panels;
    if (panels_.size() == 0) {
      ++part_;
      Skip();
    }
    return group;
  }

 private:
  void Skip() {
    for (; !done(); ++part_) {
      const lora::ColumnRange columns =
          lora::WorkerColumns(state_.p->parts[static_cast<size_t>(part_)].weight->n, kPanelColumns,
                              member_.threads, member_.thread);
      panels_ = {Panels(columns.begin), Panels(columns.end)};
      if (panels_.size() > 0) return;
    }
  }

  const LinearState& state_;
  const TeamMember& member_;
  int32_t part_ = 0;
  IndexRange panels_;
};

// Blocks whose base product was made before S was there.
struct EarlyBlocks {
  static constexpr int64_t kFloats = 24576;
  static constexpr int kMost = 64;
  alignas(64) float acc[kFloats];
  int64_t used = 0;
  int count = 0;
  int finished = 0;
  OutputBlock block[kMost];

  bool Fits(const LinearState& state) const {
    return count < kMost && used + state.p->rows * state.panels * kPanelColumns <= kFloats;
  }
  const OutputBlock& Add(const LinearState& state, const PanelGroup& group) {
    OutputBlock& added = block[count++];
    added = MakeBlock(state, group, {0, state.tiles.count}, acc + used);
    used += added.rows.size() * added.stride();
    return added;
  }
};

// Where compute binds, A comes from memory for nothing while base products of the first groups run:
// each fetches the pieces of A whose shrinks follow it.
inline void ShrinkBetweenGroups(GroupWalk* groups, ShrinkWalk* shrinks, EarlyBlocks* early,
                                LinearState* state) {
  const LinearParams& p = *state->p;
  const int64_t lines = std::min(PrefetchList::kMost, state->pairs * state->tiles.count);
  while (!shrinks->done() && !groups->done() && early->Fits(*state)) {
    PrefetchList list;
    std::array<lora::ShrinkItem, 16> pieces;
    size_t count = 0;
    while (!shrinks->done() && count < pieces.size()) {
      const std::span<const lora::TileRef> tiles = TilesOf(p, shrinks->Peek(1));
      const int64_t tile_bytes = TileABytes(tiles.front().dtype, p.k);
      const int64_t most = lines * kBufferAlignment / tile_bytes;
      const lora::ShrinkItem piece =
          shrinks->Peek(static_cast<int32_t>(std::clamp<int64_t>(most, 1, kShrinkTiles)));
      const int64_t bytes = (piece.tile_end - piece.tile_begin) * tile_bytes;
      if (count > 0 && list.count + bytes / kBufferAlignment > lines) break;
      for (int32_t t = piece.tile_begin; t < piece.tile_end; ++t) {
        list.Add(tiles[static_cast<size_t>(t)].address, tile_bytes);
      }
      shrinks->Pass(piece);
      pieces[count++] = piece;
    }
    MultiplyBlock(*state, early->Add(*state, groups->Next()), list);
    const auto begin = std::chrono::steady_clock::now();
    for (size_t i = 0; i < count; ++i) ShrinkItemRows(*state, pieces[i]);
    state->shrink_time += std::chrono::steady_clock::now() - begin;
  }
}

inline void ShrinkTheRest(ShrinkWalk* shrinks, LinearState* state) {
  const auto begin = std::chrono::steady_clock::now();
  while (!shrinks->done()) {
    const lora::ShrinkItem piece = shrinks->Peek(std::numeric_limits<int16_t>::max());
    shrinks->Pass(piece);
    ShrinkItemRows(*state, piece);
  }
  state->shrink_time += std::chrono::steady_clock::now() - begin;
}

// The other groups, and between them the early blocks' expands.
inline void MultiplyGroups(GroupWalk* groups, EarlyBlocks* early, LinearState* state) {
  alignas(64) float acc[kBlockFloats];
  PrefetchList list;
  LinesOfB lines_of_b;
  while (!groups->done() || early->finished < early->count) {
    const OutputBlock* late = nullptr;
    if (early->finished < early->count) late = &early->block[early->finished++];
    list.count = 0;
    if (late != nullptr && state->has_lora) lines_of_b.AddTo(*state, *late, &list);
    if (!groups->done()) {
      const PanelGroup group = groups->Next();
      for (int64_t tile = 0; tile < state->tiles.count; tile += state->block_tiles) {
        const IndexRange tiles{tile, std::min(tile + state->block_tiles, state->tiles.count)};
        const OutputBlock block = MakeBlock(*state, group, tiles, acc);
        if (state->has_lora) lines_of_b.AddTo(*state, block, &list);
        MultiplyBlock(*state, block, list);
        FinishBlock(block, state);
        list.count = 0;
      }
    }
    if (late != nullptr) FinishBlock(*late, state);
  }
}

// This worker's columns, which lie alike in gate and up.
inline void SwiGluColumns(const LinearParams& p, const TeamMember& member) {
  LORICA_DCHECK(p.parts.size() == 2 && p.parts[0].weight->n == p.parts[1].weight->n);
  const lora::ColumnRange columns =
      lora::WorkerColumns(p.parts[0].weight->n, kPanelColumns, member.threads, member.thread);
  for (int64_t row = 0; row < p.rows; ++row) {
    float* gate = p.parts[0].y + row * p.parts[0].y_stride;
    const float* up = p.parts[1].y + row * p.parts[1].y_stride;
    for (int64_t n = columns.begin; n < columns.end; n += 16) {
      const int64_t left = columns.end - n;
      const W16 y = SwiGluW(LoadFirst(gate + n, left, 0.0f), LoadFirst(up + n, left, 0.0f));
      StoreFirst(y, gate + n, left);
    }
  }
}

// The dot reads bf16 panels only; it is also the shrink's beside quantised weights.
inline bool DotServes(const LinearParams& p) {
  return p.activation_type == ActivationType::kBf16 &&
         std::all_of(p.parts.begin(), p.parts.end(), [](const LinearPart& part) {
           return part.weight->layout == WeightLayout::kPanelsBf16 || IsQuantized(part);
         });
}

// What a table multiplies with.
struct LinearMeans {
  LinearTiling tiling;
  const DotKernels* dot = nullptr;
  const QuantKernels* quant = nullptr;
};

inline LinearState MakeState(const LinearParams& p, const LinearMeans& means,
                             const TeamMember& member) {
  LinearState state;
  state.p = &p;
  state.has_lora = p.plan != nullptr && !p.plan->empty();
  state.quant = MakeQuantInput(p, means.quant);
  if (means.dot != nullptr && DotServes(p)) state.dot = means.dot;
  LinearTiling chosen = state.quant.kernels != nullptr ? ChooseQuantTiling(p, *means.quant)
                        : state.dot != nullptr         ? ChooseDotTiling(p.rows)
                                                       : ChooseTiling(p.rows);
  if (means.tiling.rows > 0) chosen.rows = means.tiling.rows;
  chosen.rows = std::min(chosen.rows, kMaxTileRows);
  if (means.tiling.panels > 0) chosen.panels = means.tiling.panels;
  // A bf16 shrink reads what packing rounds.
  const bool all_quantized = std::all_of(p.parts.begin(), p.parts.end(),
                                         [](const LinearPart& part) { return IsQuantized(part); });
  state.packs_plain =
      !all_quantized || (state.has_lora && p.activation_type == ActivationType::kBf16);
  while (!state.TileFits(static_cast<int>(std::min<int64_t>(chosen.rows, p.rows)), 1)) {
    --chosen.rows;
  }
  state.tiles = RowTiles(p.rows, chosen.rows);
  state.pairs = Pairs(p.k);
  const auto tallest = static_cast<int>(state.tiles.Tile(0).size());
  state.panels = chosen.panels;
  while (!state.TileFits(tallest, state.panels)) state.panels /= 2;
  state.block_tiles = std::max<int64_t>(1, kBlockFloats / (tallest * state.panels * kPanelColumns));
  state.x_is_packed = p.rows == 1 && p.k % 4 == 0 && p.activation_type == ActivationType::kF32 &&
                      state.quant.kernels == nullptr;
  state.trace = member.thread == 0 ? p.trace : nullptr;
  return state;
}

inline void RunLinear(const LinearParams& p, const LinearMeans& means, const TeamMember& member) {
  if (p.rows == 0) return;
  LinearState state = MakeState(p, means, member);
  const TraceScope scope(state.trace, Zone::kLinear);
  if (state.has_lora) {
    LORICA_CHECK(p.plan->fused.empty());
    if (state.dot != nullptr) state.dot_rows = state.DotTile(p.rows);
    if (p.activation_type == ActivationType::kBf16 && (state.dot == nullptr || NeedsF32Shrink(p))) {
      state.rounded_x = p.packed_x + p.rows * (state.pairs * 2 + 2);
    }
    if (p.segments->contiguous()) {
      state.order.shift = p.segments->order().front();
    } else {
      auto* row_of = reinterpret_cast<int32_t*>(p.packed_x + p.rows * state.pairs * 2);
      if (member.thread == 0) BuildRowMap(p, row_of);
      member.Sync();
      state.order.row_of = row_of;
    }
  }
  if (!state.x_is_packed) PackInput(state, member);
  GroupWalk groups(state, member);
  EarlyBlocks early;
  if (state.has_lora) {
    // Early blocks hold whole groups, so all rows must fit one block.
    const bool between = state.tiles.count > 1 && state.tiles.count <= state.block_tiles;
    ShrinkWalk shrinks(p, member);
    if (between || p.activation_type == ActivationType::kBf16) member.Sync();
    if (between) ShrinkBetweenGroups(&groups, &shrinks, &early, &state);
    ShrinkTheRest(&shrinks, &state);
  }
  if (!state.x_is_packed || state.has_lora) member.Sync();
  MultiplyGroups(&groups, &early, &state);
  if (p.combine == Combine::kSwiGlu) SwiGluColumns(p, member);
  if (state.has_lora && state.trace != nullptr) {
    const auto nanoseconds = [](std::chrono::steady_clock::duration time) {
      return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
    };
    state.trace->Add(Zone::kLoraShrink, nanoseconds(state.shrink_time));
    state.trace->Add(Zone::kLoraExpand, nanoseconds(state.expand_time));
  }
}

}  // namespace lorica::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
