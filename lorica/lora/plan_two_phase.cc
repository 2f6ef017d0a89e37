#include <algorithm>

#include "lorica/lora/plan_builders.h"

namespace lorica::lora {
namespace {

// A core multiplies about this many pairs in the time in which it reads one byte of a tile from
// memory (some 10 GB/s and 80 GFLOP/s a core on the machines measured).
constexpr int64_t kPairsPerByte = 4;
// Rows below which a tile's bytes, not its products, are the cost: to cut further only re-reads.
constexpr int32_t kFewestRows = 8;
// Units a worker should have to choose from, so that the border between two falls nearly right.
constexpr int64_t kUnitsPerWorker = 8;

// One tile against `rows` rows, in multiply-adds.
int64_t UnitCost(const PlanInput& input, int32_t part, int32_t segment, int32_t rows) {
  const int64_t pairs_alike = kPairsPerByte * input.ElementBytes(part, segment);
  return input.shape(part).k * input.limits.rank_quantum * std::max<int64_t>(pairs_alike, rows);
}

int32_t Pieces(int32_t rows, int32_t most) { return (rows + most - 1) / most; }

// Piece `index` of `rows` rows in blocks of `most`.
int32_t PieceBegin(int32_t rows, int32_t most, int32_t index) {
  return std::min(rows, index * most);
}

int64_t CountUnits(const PlanInput& input, const LoraPlan& plan, int32_t most_rows) {
  const int32_t segments = input.segment_count();
  int64_t units = 0;
  for (int32_t part = 0; part < plan.parts; ++part) {
    for (int32_t s = 0; s < segments; ++s) {
      units += int64_t{plan.Scratch(part, s, segments).tiles} *
               Pieces(input.segment(s).size(), most_rows);
    }
  }
  return units;
}

int32_t ShrinkRows(const PlanInput& input, const LoraPlan& plan) {
  int32_t most = input.limits.row_block;
  if (input.limits.workers == 1) return most;
  const int64_t wanted = kUnitsPerWorker * input.limits.workers;
  while (most / 2 >= std::max(kFewestRows, input.limits.row_quantum) &&
         CountUnits(input, plan, most) < wanted) {
    most /= 2;
  }
  return most;
}

// Calls visit(part, segment, row_begin, row_end, cost of one tile) for each block with tiles, in
// the order in which shrinks are shared out: parts innermost, since they read the same x.
template <typename Visitor>
void ForEachBlock(const PlanInput& input, const LoraPlan& plan, int32_t most,
                  const Visitor& visit) {
  const int32_t segments = input.segment_count();
  for (int32_t s = 0; s < segments; ++s) {
    const Segment& segment = input.segment(s);
    const int32_t pieces = Pieces(segment.size(), most);
    for (int32_t piece = 0; piece < pieces; ++piece) {
      const int32_t begin = segment.begin + PieceBegin(segment.size(), most, piece);
      const int32_t end = segment.begin + PieceBegin(segment.size(), most, piece + 1);
      for (int32_t part = 0; part < plan.parts; ++part) {
        if (plan.Scratch(part, s, segments).tiles == 0) continue;
        visit(part, s, begin, end, UnitCost(input, part, s, end - begin));
      }
    }
  }
}

void LayOutScratch(const PlanInput& input, LoraPlan* plan) {
  const int32_t segments = input.segment_count();
  int64_t offset = 0;
  for (size_t i = 0; i < plan->scratch.size(); ++i) {
    ScratchSpan& span = plan->scratch[i];
    span.s_offset = offset;
    const int32_t s = static_cast<int32_t>(i % static_cast<size_t>(segments));
    offset += int64_t{input.segment(s).size()} * span.tiles * input.limits.rank_quantum;
  }
  plan->s_floats = offset;
}

// Units (one tile, one block of rows) lie on a line, as long as their costs; the line is cut into
// equal shares, and a unit belongs to the worker in whose share its middle lies. A worker is then
// never off its equal share by more than one unit.
void ShareShrinks(const PlanInput& input, LoraPlan* plan) {
  const int32_t segments = input.segment_count();
  const int32_t ranks = input.limits.rank_quantum;
  const int32_t most = ShrinkRows(input, *plan);
  int64_t total = 0;
  ForEachBlock(input, *plan, most, [&](int32_t part, int32_t s, int32_t, int32_t, int64_t cost) {
    total += cost * plan->Scratch(part, s, segments).tiles;
  });

  int32_t worker = 0;
  int64_t done = 0;
  ForEachBlock(
      input, *plan, most, [&](int32_t part, int32_t s, int32_t begin, int32_t end, int64_t cost) {
        const ScratchSpan& span = plan->Scratch(part, s, segments);
        const int32_t stride = span.tiles * ranks;
        const int64_t row_offset = span.s_offset + int64_t{begin - input.segment(s).begin} * stride;
        for (int32_t tile = 0; tile < span.tiles;) {
          int64_t count = span.tiles - tile;
          if (worker + 1 < plan->workers) {
            const int64_t border = total * (worker + 1) / plan->workers;
            const int64_t room = border - (done + cost / 2);
            count = std::min(count, room <= 0 ? 0 : (room + cost - 1) / cost);
          }
          if (count == 0) {
            plan->shrink_begin[static_cast<size_t>(++worker)] =
                static_cast<int32_t>(plan->shrinks.size());
            continue;
          }
          const int32_t tile_end = tile + static_cast<int32_t>(count);
          plan->shrinks.push_back(
              {s, part, begin, end, tile, tile_end, row_offset + int64_t{tile} * ranks, stride});
          tile = tile_end;
          done += count * cost;
        }
      });
  while (worker < plan->workers) {
    plan->shrink_begin[static_cast<size_t>(++worker)] = static_cast<int32_t>(plan->shrinks.size());
  }
}

void ListExpands(const PlanInput& input, LoraPlan* plan) {
  const int32_t segments = input.segment_count();
  const PlanLimits& limits = input.limits;
  for (int32_t worker = 0; worker < plan->workers; ++worker) {
    for (int32_t part = 0; part < plan->parts; ++part) {
      const ColumnRange columns =
          WorkerColumns(input.shape(part).n, limits.column_quantum, plan->workers, worker);
      if (columns.begin == columns.end) continue;
      for (int32_t s = 0; s < segments; ++s) {
        const ScratchSpan& span = plan->Scratch(part, s, segments);
        if (span.tiles == 0) continue;
        const Segment& segment = input.segment(s);
        const int32_t stride = span.tiles * limits.rank_quantum;
        for (int32_t begin = segment.begin; begin < segment.end; begin += limits.row_block) {
          const int32_t end = std::min(segment.end, begin + limits.row_block);
          plan->expands.push_back({s, part, begin, end, columns.begin, columns.end, span.tiles,
                                   span.s_offset + int64_t{begin - segment.begin} * stride,
                                   stride});
        }
      }
    }
    plan->expand_begin[static_cast<size_t>(worker) + 1] =
        static_cast<int32_t>(plan->expands.size());
  }
}

}  // namespace

void BuildTwoPhase(const PlanInput& input, LoraPlan* plan) {
  LayOutScratch(input, plan);
  ShareShrinks(input, plan);
  ListExpands(input, plan);
}

}  // namespace lorica::lora
