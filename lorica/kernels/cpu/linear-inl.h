// LoraLinear: packs x once, shrinks, then walks this worker's columns panel
// group by panel group: base tile, expand, epilogue, while the outputs are in
// cache.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "lorica/base/check.h"
#include "lorica/base/thread_pool.h"
#include "lorica/kernels/cpu/dot.h"
#include "lorica/kernels/cpu/gemm-inl.h"
#include "lorica/kernels/cpu/kernel_table.h"
#include "lorica/kernels/cpu/lora-inl.h"
#include "lorica/kernels/cpu/packed_input-inl.h"
#include "lorica/kernels/cpu/packing.h"

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
  if (rows == 15 || rows == 16) return {16, 1};
  return {14, 2};
}

inline LinearTiling ChooseTiling(int64_t rows) {
#if HWY_TARGET == HWY_AVX3
  if (rows <= 5) return {5, 4};
  if (rows <= 12) return {12, 2};
  if (rows <= 16) return {16, 1};
  return {12, 2};
#elif HWY_TARGET == HWY_AVX2
  if (rows == 1) return {1, 4};
  if (rows == 2) return {2, 2};
  if (rows == 6) return {6, 1};
  return {5, 1};
#else
  return {kMaxTileRows, 1};
#endif
}

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

inline void ShrinkAll(const LinearState& state, const TeamMember& member) {
  const TraceScope scope(state.trace, Zone::kLoraShrink);
  const lora::LoraPlan& plan = *state.p->plan;
  for (int32_t w = member.thread; w < plan.workers; w += member.threads) {
    const int32_t end = plan.shrink_begin[static_cast<size_t>(w) + 1];
    for (int32_t i = plan.shrink_begin[static_cast<size_t>(w)]; i < end; ++i) {
      ShrinkItemRows(state, plan.shrinks[static_cast<size_t>(i)]);
    }
  }
}

// A block of outputs on its way from the base product to y.
struct OutputTile {
  int32_t part = 0;
  IndexRange rows;  // packed
  int64_t panel = 0;
  int64_t panels = 0;
  float* acc = nullptr;  // [rows][panels * 16]
};

// Adds the expands of the segments that meet the tile's rows. `segment` is
// where the last tile stopped: segments and tiles both ascend.
inline void ExpandInto(const LinearState& state, const OutputTile& tile, size_t* segment) {
  const LinearParams& p = *state.p;
  const auto& segments = p.segments->segments();
  const int64_t begin = tile.rows.begin - state.order.shift;
  const int64_t end = tile.rows.end - state.order.shift;
  while (*segment < segments.size() && segments[*segment].end <= begin) ++*segment;
  for (size_t i = *segment; i < segments.size() && segments[i].begin < end; ++i) {
    const lora::ScratchSpan& span =
        p.plan->Scratch(tile.part, static_cast<int32_t>(i), static_cast<int32_t>(segments.size()));
    if (span.tiles == 0) continue;
    const int64_t first = std::max<int64_t>(segments[i].begin, begin);
    const int64_t last = std::min<int64_t>(segments[i].end, end);
    ExpandArgs args;
    args.s_stride = span.tiles * kTileRanks;
    args.s = p.s_scratch + span.s_offset + (first - segments[i].begin) * args.s_stride;
    args.tiles =
        p.table->Entry(segments[i].slot, p.parts[static_cast<size_t>(tile.part)].site).tiles;
    args.k = p.k;
    args.panel = tile.panel;
    args.acc_stride = tile.panels * kPanelColumns;
    args.acc = tile.acc + (first - begin) * args.acc_stride;
    Expand(last - first, tile.panels, args);
  }
}

// Cache lines of B that the expand of a tile will read. B lies in pieces of a
// few lines, so it is bound by the latency of misses: fetched one line a k pair
// inside the base tile, it costs little.
struct PrefetchList {
  static constexpr int64_t kMost = 1024;
  const std::byte* line[kMost];
  int64_t count = 0;
};

inline void ListPrefetch(const LinearState& state, const OutputTile& tile, size_t segment,
                         PrefetchList* list) {
  list->count = 0;
  const LinearParams& p = *state.p;
  if (state.has_lora) {
    const auto& segments = p.segments->segments();
    const int64_t begin = tile.rows.begin - state.order.shift;
    const int64_t end = tile.rows.end - state.order.shift;
    const lora::SiteId site = p.parts[static_cast<size_t>(tile.part)].site;
    for (size_t i = segment; i < segments.size() && segments[i].begin < end; ++i) {
      if (segments[i].end <= begin) continue;
      for (const lora::TileRef& ref : p.table->Entry(segments[i].slot, site).tiles) {
        const int64_t panel_bytes = TileBPanelBytes(ref.dtype);
        const std::byte* b = ref.address + TileABytes(ref.dtype, p.k) + tile.panel * panel_bytes;
        for (int64_t at = 0; at < tile.panels * panel_bytes; at += kBufferAlignment) {
          if (list->count < PrefetchList::kMost) list->line[list->count++] = b + at;
        }
      }
    }
  }
  if (list->count == 0) {
    list->line[list->count++] = reinterpret_cast<const std::byte*>(tile.acc);
  }
}

inline void StoreOutputs(const LinearState& state, const OutputTile& tile) {
  const LinearPart& part = state.p->parts[static_cast<size_t>(tile.part)];
  const int64_t n = part.weight->n;
  for (int64_t panel = 0; panel < tile.panels; ++panel) {
    const int64_t column = (tile.panel + panel) * kPanelColumns;
    const int64_t columns = std::min(kPanelColumns, n - column);
    const bool has_bias = part.epilogue.bias != nullptr;
    const W16 bias =
        has_bias ? LoadFirst(part.epilogue.bias + column, columns, 0.0f) : Splat<16>(0.0f);
    for (int64_t i = 0; i < tile.rows.size(); ++i) {
      W16 value = Load<16>(tile.acc + (i * tile.panels + panel) * kPanelColumns);
      float* y = part.y + state.order.Row(tile.rows.begin + i) * part.y_stride + column;
      if (has_bias) value = AddW(value, bias);
      if (part.epilogue.add_to_output) value = AddW(LoadFirst(y, columns, 0.0f), value);
      StoreFirst(value, y, columns);
    }
  }
}

template <class Args>
void FillTileArgs(const Weight& weight, const OutputTile& tile, const PrefetchList& lines,
                  Args* args) {
  args->panel_bytes = PanelBytes(LayoutDType(weight.layout), weight.k);
  args->w = weight.data.data() + tile.panel * args->panel_bytes;
  args->pairs = Pairs(weight.k);
  args->acc = tile.acc;
  args->prefetch = lines.line;
  args->prefetch_last = lines.line + lines.count - 1;
}

inline void MultiplyTile(const LinearState& state, const Weight& weight, const OutputTile& tile,
                         const PrefetchList& lines) {
  const auto rows = static_cast<int>(tile.rows.size());
  const auto panels = static_cast<int>(tile.panels);
  if (kernels::IsQuantized(LayoutDType(weight.layout))) {
    const std::byte* const* last = lines.line + lines.count - 1;
    MultiplyQuantTile(state.quant, weight,
                      {tile.rows, tile.panel, tile.panels, tile.acc, lines.line, last});
  } else if (state.dot != nullptr) {
    DotTileArgs args;
    FillTileArgs(weight, tile, lines, &args);
    args.x = state.DotTile(tile.rows.begin);
    state.dot->tile(rows, panels)(args);
  } else {
    TileArgs args;
    FillTileArgs(weight, tile, lines, &args);
    args.x = state.PackedTile(tile.rows.begin);
    BaseTileFor(LayoutDType(weight.layout), rows, panels)(args);
  }
}

inline void MultiplyColumns(int32_t part_index, IndexRange panels, LinearState* state_out) {
  const LinearState& state = *state_out;
  const LinearParams& p = *state.p;
  const Weight& weight = *p.parts[static_cast<size_t>(part_index)].weight;
  alignas(64) float acc[kMaxTileRows * kMaxTilePanels * kPanelColumns];
  PrefetchList lines;
  int64_t now = 0;
  for (int64_t panel = panels.begin; panel < panels.end; panel += now) {
    now = state.panels;
    while (now > panels.end - panel) now /= 2;
    size_t segment = 0;
    for (int64_t t = 0; t < state.tiles.count; ++t) {
      OutputTile tile;
      tile.part = part_index;
      tile.rows = state.tiles.Tile(t);
      tile.panel = panel;
      tile.panels = now;
      tile.acc = acc;
      std::fill_n(acc, tile.rows.size() * now * kPanelColumns, 0.0f);
      ListPrefetch(state, tile, segment, &lines);
      MultiplyTile(state, weight, tile, lines);
      if (state.has_lora) {
        const auto begin = std::chrono::steady_clock::now();
        ExpandInto(state, tile, &segment);
        state_out->expand_time += std::chrono::steady_clock::now() - begin;
      }
      StoreOutputs(state, tile);
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
  if (state.has_lora) {
    if (p.activation_type == ActivationType::kBf16) member.Sync();
    ShrinkAll(state, member);
  }
  if (!state.x_is_packed || state.has_lora) member.Sync();
  for (size_t part = 0; part < p.parts.size(); ++part) {
    const lora::ColumnRange columns =
        lora::WorkerColumns(p.parts[part].weight->n, kPanelColumns, member.threads, member.thread);
    MultiplyColumns(static_cast<int32_t>(part), {Panels(columns.begin), Panels(columns.end)},
                    &state);
  }
  if (state.has_lora && state.trace != nullptr) {
    state.trace->Add(
        Zone::kLoraExpand,
        std::chrono::duration_cast<std::chrono::nanoseconds>(state.expand_time).count());
  }
}

}  // namespace lorica::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
