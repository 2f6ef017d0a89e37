#include <algorithm>
#include <limits>

#include "lorica/lora/plan_builders.h"

namespace lorica::lora {
namespace {

// A matrix unit does 16 x 16 x 16 pairs a cycle while its core receives some 32 bytes.
constexpr int64_t kPairsPerByte = 128;
// What starting an item costs, in bytes not read meanwhile.
constexpr int64_t kItemCost = 2048;
// Sizes of column pieces that are tried between "as few as possible" and "an equal share each".
constexpr int64_t kTargets = 8;
// A piece's own columns are worth at least this part of the shrink that it repeats: idle cores cost
// nothing, and the same A comes from L2, but each piece has its own start and end.
constexpr int64_t kLeastShare = 24;
// Fewest rows of an item: a unit that pads to more still reads only the rows that are there.
constexpr int32_t kLeastRows = 4;
// The search for the least greatest load ends within 1/64 of it.
constexpr int64_t kPrecision = 64;

int64_t RoundUp(int64_t value, int64_t quantum) {
  return (value + quantum - 1) / quantum * quantum;
}

int64_t PieceCost(const FusedBlock& block) {
  return block.fixed_cost + (block.column_cost + block.pieces - 1) / block.pieces;
}

void ListBlocks(const PlanInput& input, int32_t most_rows, LoraPlan* plan) {
  const int32_t segments = input.segment_count();
  const PlanLimits& limits = input.limits;
  plan->blocks.clear();
  for (int32_t part = 0; part < plan->parts; ++part) {
    const SiteShape& shape = input.shape(part);
    for (int32_t s = 0; s < segments; ++s) {
      const int32_t tiles = plan->Scratch(part, s, segments).tiles;
      if (tiles == 0) continue;
      const Segment& segment = input.segment(s);
      const int64_t bytes = input.ElementBytes(part, s);
      const int64_t ranks = int64_t{tiles} * limits.rank_quantum;
      const int32_t most = RowsThatFit(limits, tiles, most_rows);
      for (int32_t begin = segment.begin; begin < segment.end; begin += most) {
        const int32_t end = std::min(segment.end, begin + most);
        const int64_t rows = end - begin;
        const int64_t pairs = RoundUp(rows, limits.row_quantum) * ranks / kPairsPerByte;
        plan->blocks.push_back({part, s, begin, end, tiles, 1,
                                kItemCost + shape.k * std::max((ranks + rows) * bytes, pairs),
                                // y is read and written.
                                shape.n * std::max((ranks + 2 * rows) * bytes, pairs)});
      }
    }
  }
}

// Cuts columns so that a piece costs about `target`, but not where its own share has become small
// beside the shrink that it repeats.
void CutColumns(const PlanInput& input, int64_t target, LoraPlan* plan) {
  const PlanLimits& limits = input.limits;
  for (FusedBlock& block : plan->blocks) {
    const int64_t panels =
        RoundUp(input.shape(block.part).n, limits.column_quantum) / limits.column_quantum;
    const int64_t share = std::max(target - block.fixed_cost, block.fixed_cost / kLeastShare + 1);
    const int64_t pieces = (block.column_cost + share - 1) / share;
    block.pieces = static_cast<int32_t>(
        std::clamp<int64_t>(pieces, 1, std::min<int64_t>(panels, limits.workers)));
  }
}

// True when the pieces, in order, fit into `workers` loads of at most `cap`.
bool Fits(const std::vector<FusedBlock>& blocks, int32_t workers, int64_t cap) {
  int32_t used = 1;
  int64_t load = 0;
  for (const FusedBlock& block : blocks) {
    const int64_t cost = PieceCost(block);
    if (cost > cap) return false;
    for (int64_t left = block.pieces; left > 0;) {
      const int64_t fit = std::min(left, (cap - load) / cost);
      load += fit * cost;
      left -= fit;
      if (left > 0) {
        if (++used > workers) return false;
        load = 0;
      }
    }
  }
  return true;
}

// The least greatest load, nearly; what Fits accepts.
int64_t LeastCap(const std::vector<FusedBlock>& blocks, int32_t workers) {
  int64_t total = 0;
  int64_t largest = 0;
  for (const FusedBlock& block : blocks) {
    total += PieceCost(block) * block.pieces;
    largest = std::max(largest, PieceCost(block));
  }
  int64_t low = std::max(largest, total / workers) - 1;  // does not fit
  int64_t high = total / workers + largest;              // fits
  while (high - low > std::max<int64_t>(1, high / kPrecision)) {
    const int64_t middle = low + (high - low) / 2;
    (Fits(blocks, workers, middle) ? high : low) = middle;
  }
  return high;
}

// Segments of equal rank that one worker takes whole share a block of rows: the unit pads to it
// anyway, and their A tiles lie side by side.
bool JoinsLast(const PlanInput& input, const FusedBlock& block, int32_t last_tiles,
               const FusedItem& last) {
  const PlanLimits& limits = input.limits;
  const Segment& segment = input.segment(block.segment);
  const bool block_whole =
      block.pieces == 1 && block.row_begin == segment.begin && block.row_end == segment.end;
  const bool last_whole = last.row_begin == input.segment(last.segment_begin).begin &&
                          last.column_begin == 0 &&
                          last.column_end == static_cast<int32_t>(input.shape(last.part).n);
  if (!block_whole || !last_whole || last.part != block.part) return false;
  if (last.segment_end != block.segment || last_tiles != block.tiles) return false;
  const int64_t count = block.segment + 1 - last.segment_begin;
  const int64_t s_bytes = count * block.tiles * limits.rank_quantum * limits.row_quantum * 4;
  return block.row_end - last.row_begin <= limits.row_quantum &&
         (limits.local_bytes == 0 || s_bytes <= limits.local_bytes);
}

void Emit(const PlanInput& input, int64_t cap, LoraPlan* plan) {
  int32_t worker = 0;
  int64_t load = 0;
  int32_t last_tiles = 0;
  for (const FusedBlock& block : plan->blocks) {
    const int64_t cost = PieceCost(block);
    for (int32_t piece = 0; piece < block.pieces; ++piece) {
      if (load + cost > cap) {
        plan->fused_begin[static_cast<size_t>(++worker)] = static_cast<int32_t>(plan->fused.size());
        load = 0;
      }
      load += cost;
      const bool first =
          static_cast<size_t>(plan->fused_begin[static_cast<size_t>(worker)]) == plan->fused.size();
      if (!first && JoinsLast(input, block, last_tiles, plan->fused.back())) {
        plan->fused.back().segment_end = block.segment + 1;
        plan->fused.back().row_end = block.row_end;
        continue;
      }
      const ColumnRange columns = WorkerColumns(input.shape(block.part).n,
                                                input.limits.column_quantum, block.pieces, piece);
      plan->fused.push_back({block.segment, block.segment + 1, block.part, block.row_begin,
                             block.row_end, columns.begin, columns.end});
      last_tiles = block.tiles;
    }
  }
  LORICA_CHECK(worker < plan->workers);
  while (worker < plan->workers) {
    plan->fused_begin[static_cast<size_t>(++worker)] = static_cast<int32_t>(plan->fused.size());
  }
}

}  // namespace

void BuildFused(const PlanInput& input, LoraPlan* plan) {
  const PlanLimits& limits = input.limits;
  int32_t longest = 0;
  for (const Segment& segment : input.segments.segments()) {
    longest = std::max(longest, segment.size());
  }

  // Rows in smaller blocks, columns in more pieces: more to share out, more read twice. The first
  // of the nearly best is the one with the fewest items.
  int32_t best_rows = 0;
  int64_t best_target = 0;
  int64_t best_cap = std::numeric_limits<int64_t>::max();
  const auto half = [&](int32_t rows) {
    if (rows <= limits.row_quantum) return rows / 2;
    return rows / 2 / limits.row_quantum * limits.row_quantum;
  };
  int32_t first_rows = limits.row_block;
  while (half(first_rows) >= std::max(longest, limits.row_quantum)) first_rows = half(first_rows);
  const int32_t least_rows = std::min(kLeastRows, limits.row_quantum);
  for (int32_t rows = first_rows; rows >= least_rows; rows = half(rows)) {
    if (rows < limits.row_quantum && rows >= longest) break;
    ListBlocks(input, rows, plan);
    if (plan->blocks.empty()) return;
    int64_t total = 0;
    int64_t largest = 0;
    for (const FusedBlock& block : plan->blocks) {
      total += PieceCost(block);
      largest = std::max(largest, PieceCost(block));
    }
    const int64_t equal_share = total / limits.workers;
    for (int64_t i = 0; i <= kTargets; ++i) {
      const int64_t target = largest - (largest - equal_share) * i / kTargets;
      CutColumns(input, target, plan);
      const int64_t cap = LeastCap(plan->blocks, limits.workers);
      if (best_rows == 0 || cap < best_cap - best_cap / kPrecision) {
        best_rows = rows;
        best_target = target;
        best_cap = cap;
      }
      if (equal_share >= largest) break;
    }
  }
  ListBlocks(input, best_rows, plan);
  CutColumns(input, best_target, plan);
  Emit(input, best_cap, plan);
}

}  // namespace lorica::lora
