// A block of outputs: some panels of columns by some register tiles of rows, from the base product
// over the expand to the epilogue, while it is in cache.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "lorica/base/thread_pool.h"
#include "lorica/kernels/cpu/lora-inl.h"
#include "lorica/kernels/cpu/packed_input-inl.h"
#include "lorica/kernels/cpu/packing.h"
#include "lorica/kernels/cpu/quant_input-inl.h"
#include "lorica/kernels/cpu/tile_args.h"

#if defined(LORICA_KERNELS_CPU_OUTPUT_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_KERNELS_CPU_OUTPUT_BLOCK_INL_H_
#undef LORICA_KERNELS_CPU_OUTPUT_BLOCK_INL_H_
#else
#define LORICA_KERNELS_CPU_OUTPUT_BLOCK_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace lorica::kernels::cpu::HWY_NAMESPACE {

// Columns of one part that a worker multiplies side by side.
struct PanelGroup {
  int32_t part = 0;
  int64_t panel = 0;
  int64_t panels = 0;
};

// Outputs on their way from the base product to y: a group's columns of a run of register tiles.
struct OutputBlock {
  PanelGroup group;
  IndexRange tiles;      // of LinearState::tiles
  IndexRange rows;       // packed
  float* acc = nullptr;  // [rows][panels * 16]

  int64_t stride() const { return group.panels * kPanelColumns; }
};

inline OutputBlock MakeBlock(const LinearState& state, const PanelGroup& group, IndexRange tiles,
                             float* acc) {
  OutputBlock block;
  block.group = group;
  block.tiles = tiles;
  block.rows = {state.tiles.Tile(tiles.begin).begin, state.tiles.Tile(tiles.end - 1).end};
  block.acc = acc;
  return block;
}

// Calls visit(segment's index, rows of the segment order that the block holds) for each segment
// that meets the block.
template <class Visit>
void ForEachSegment(const LinearState& state, const OutputBlock& block, const Visit& visit) {
  const auto& segments = state.p->segments->segments();
  const int64_t begin = block.rows.begin - state.order.shift;
  const int64_t end = block.rows.end - state.order.shift;
  auto at = std::partition_point(segments.begin(), segments.end(),
                                 [&](const lora::Segment& s) { return s.end <= begin; });
  for (; at != segments.end() && at->begin < end; ++at) {
    visit(static_cast<int32_t>(at - segments.begin()),
          IndexRange{std::max<int64_t>(at->begin, begin), std::min<int64_t>(at->end, end)});
  }
}

inline void ExpandInto(const LinearState& state, const OutputBlock& block) {
  const LinearParams& p = *state.p;
  const auto& segments = p.segments->segments();
  const lora::SiteId site = p.parts[static_cast<size_t>(block.group.part)].site;
  ForEachSegment(state, block, [&](int32_t i, IndexRange rows) {
    const lora::ScratchSpan& span =
        p.plan->Scratch(block.group.part, i, static_cast<int32_t>(segments.size()));
    if (span.tiles == 0) return;
    const lora::Segment& segment = segments[static_cast<size_t>(i)];
    ExpandArgs args;
    args.s_stride = span.tiles * kTileRanks;
    args.s = p.s_scratch + span.s_offset + (rows.begin - segment.begin) * args.s_stride;
    args.tiles = p.table->Entry(segment.slot, site).tiles;
    args.k = p.k;
    args.panel = block.group.panel;
    args.acc_stride = block.stride();
    args.acc = block.acc + (rows.begin + state.order.shift - block.rows.begin) * args.acc_stride;
    Expand(rows.size(), block.group.panels, args);
  });
}

// Cache lines that a base product fetches meanwhile, spread over its k pairs: factors of LoRA lie
// in pieces, so they are bound by the latency of misses, and one line between multiply-adds costs
// little.
struct PrefetchList {
  static constexpr int64_t kMost = 4096;
  const std::byte* line[kMost];
  int64_t count = 0;

  void Add(const std::byte* begin, int64_t bytes) {
    const int64_t lines = std::min(bytes / kBufferAlignment, kMost - count);
    for (int64_t i = 0; i < lines; ++i) line[count + i] = begin + i * kBufferAlignment;
    count += lines;
  }
  // The first lines of another list, `shift` bytes on.
  void AddShifted(const PrefetchList& other, int64_t shift) {
    const int64_t lines = std::min(other.count, kMost - count);
    for (int64_t i = 0; i < lines; ++i) line[count + i] = other.line[i] + shift;
    count += lines;
  }
};

// The lines of B that the expand of a block will read. From one group of panels to the next they
// are the same lines some bytes on, so the walk over segments and tiles is made once.
class LinesOfB {
 public:
  void AddTo(const LinearState& state, const OutputBlock& block, PrefetchList* list) {
    if (!Knows(block) || !alike_) Walk(state, block);
    list->AddShifted(lines_, (block.group.panel - walked_.group.panel) * panel_bytes_);
  }

 private:
  bool Knows(const OutputBlock& block) const {
    return walked_.group.panels == block.group.panels && walked_.group.part == block.group.part &&
           walked_.rows.begin == block.rows.begin && walked_.rows.end == block.rows.end;
  }
  void Walk(const LinearState& state, const OutputBlock& block) {
    const LinearParams& p = *state.p;
    const lora::SiteId site = p.parts[static_cast<size_t>(block.group.part)].site;
    walked_ = block;
    lines_.count = 0;
    alike_ = true;
    panel_bytes_ = 0;
    ForEachSegment(state, block, [&](int32_t i, IndexRange) {
      const lora::Segment& segment = p.segments->segments()[static_cast<size_t>(i)];
      for (const lora::TileRef& ref : p.table->Entry(segment.slot, site).tiles) {
        const int64_t panel_bytes = TileBPanelBytes(ref.dtype);
        if (panel_bytes_ == 0) panel_bytes_ = panel_bytes;
        alike_ = alike_ && panel_bytes == panel_bytes_;
        lines_.Add(ref.address + TileABytes(ref.dtype, p.k) + block.group.panel * panel_bytes,
                   block.group.panels * panel_bytes);
      }
    });
  }

  OutputBlock walked_;
  bool alike_ = false;  // all tiles of one type: one shift for all
  int64_t panel_bytes_ = 0;
  PrefetchList lines_;
};

inline void StoreOutputs(const LinearState& state, const OutputBlock& block) {
  const LinearPart& part = state.p->parts[static_cast<size_t>(block.group.part)];
  const int64_t n = part.weight->n;
  for (int64_t panel = 0; panel < block.group.panels; ++panel) {
    const int64_t column = (block.group.panel + panel) * kPanelColumns;
    const int64_t columns = std::min(kPanelColumns, n - column);
    const bool has_bias = part.epilogue.bias != nullptr;
    const W16 bias =
        has_bias ? LoadFirst(part.epilogue.bias + column, columns, 0.0f) : Splat<16>(0.0f);
    for (int64_t i = 0; i < block.rows.size(); ++i) {
      W16 value = Load<16>(block.acc + i * block.stride() + panel * kPanelColumns);
      float* y = part.y + state.order.Row(block.rows.begin + i) * part.y_stride + column;
      if (has_bias) value = AddW(value, bias);
      if (part.epilogue.add_to_output) value = AddW(LoadFirst(y, columns, 0.0f), value);
      StoreFirst(value, y, columns);
    }
  }
}

// acc = x * W^T of a block on quantised weights: each tile walks all of K.
inline void MultiplyQuantBlock(const LinearState& state, const Weight& weight,
                               const OutputBlock& block, const PrefetchList& lines) {
  const std::byte* const none = weight.data.data();
  for (int64_t t = 0; t < block.tiles.size(); ++t) {
    const IndexRange rows = state.tiles.Tile(block.tiles.begin + t);
    const IndexRange some = SplitRange(lines.count, block.tiles.size(), t);
    QuantTile tile;
    tile.rows = rows;
    tile.panel = block.group.panel;
    tile.panels = block.group.panels;
    tile.acc = block.acc + (rows.begin - block.rows.begin) * block.stride();
    tile.prefetch = some.size() > 0 ? lines.line + some.begin : &none;
    tile.prefetch_last = some.size() > 0 ? lines.line + some.end - 1 : tile.prefetch;
    MultiplyQuantTile(state.quant, weight, tile);
  }
}

// acc = x * W^T of a block. Several register tiles walk K together, a block of k at a time: its
// weights stay in the nearest cache meanwhile, and the next block's arrive spread over all tiles. A
// tile alone walks all of K at once, some lines ahead.
inline void MultiplyBlock(const LinearState& state, const OutputBlock& block,
                          const PrefetchList& lines) {
  const Weight& weight = *state.p->parts[static_cast<size_t>(block.group.part)].weight;
  const DType dtype = LayoutDType(weight.layout);
  if (kernels::IsQuantized(dtype)) return MultiplyQuantBlock(state, weight, block, lines);
  const int64_t pair_bytes = LanePairBytes(dtype) * kPanelColumns;
  const auto panels = static_cast<int>(block.group.panels);
  const int64_t tiles = block.tiles.size();
  const int64_t step = tiles == 1 ? state.pairs : kChainPairs;
  const int64_t calls = (state.pairs + step - 1) / step * tiles;
  TileArgs args;
  args.panel_bytes = PanelBytes(dtype, weight.k);
  const std::byte* w = weight.data.data() + block.group.panel * args.panel_bytes;
  const std::byte* const after = w + panels * args.panel_bytes;
  std::fill_n(block.acc, block.rows.size() * block.stride(), 0.0f);
  int64_t call = 0;
  for (int64_t pair = 0; pair < state.pairs; pair += step) {
    args.w = w + pair * pair_bytes;
    args.pairs = std::min(step, state.pairs - pair);
    const std::byte* const next = pair + step < state.pairs ? args.w + step * pair_bytes : after;
    for (int64_t t = 0; t < tiles; ++t, ++call) {
      const IndexRange rows = state.tiles.Tile(block.tiles.begin + t);
      const auto height = static_cast<int>(rows.size());
      args.x = state.TileInput(rows.begin) + pair * rows.size() * state.PairBytes();
      args.acc = block.acc + (rows.begin - block.rows.begin) * block.stride();
      if (tiles == 1) {
        args.ahead = w + state.PrefetchBytes(height, panels);
        args.ahead_step = pair_bytes;
      } else {
        args.ahead = next + step * pair_bytes * t / tiles;
        args.ahead_step = step * pair_bytes / (tiles * args.pairs);
      }
      const IndexRange some = SplitRange(lines.count, calls, call);
      args.prefetch = some.size() > 0 ? lines.line + some.begin : &args.w;
      args.prefetch_last = some.size() > 0 ? lines.line + some.end - 1 : args.prefetch;
      state.TileFor(dtype, height, panels)(args);
    }
  }
}

inline void FinishBlock(const OutputBlock& block, LinearState* state) {
  if (state->has_lora) {
    const auto begin = std::chrono::steady_clock::now();
    ExpandInto(*state, block);
    state->expand_time += std::chrono::steady_clock::now() - begin;
  }
  StoreOutputs(*state, block);
}

}  // namespace lorica::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
