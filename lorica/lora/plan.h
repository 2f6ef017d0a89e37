// LoraPlan: the list of work items that a kernel walks for one call (the sites that read the same
// x), built on the host from the segments and the backend's limits. Items are flat structs of
// indices and offsets, no pointers: tile addresses come from the weight table. Calls with equal
// signatures share a plan. Built by the engine thread once a step into reused storage.
//
// Three forms: two-phase plans (CPU) list shrinks, a meeting of all workers, then expands; fused
// plans (a matrix unit) list items that recompute the shrink for their column range; split plans (a
// matrix unit whose cores can meet) are two-phase with the shrink cut along k as well. Either way
// each element of y has at most one writer in a launch.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "lorica/lora/segments.h"
#include "lorica/lora/site.h"
#include "lorica/lora/weight_table.h"

namespace lorica::lora {

// What a backend can do; it states them once.
struct PlanLimits {
  enum class Form : uint8_t { kTwoPhase, kFused, kSplit };
  Form form = Form::kTwoPhase;
  int32_t workers = 1;          // threads or cores
  int32_t row_quantum = 1;      // rows that one item pads to (16 on a matrix unit)
  int32_t row_block = 64;       // most rows of one item
  int32_t rank_quantum = 8;     // ranks of a tile
  int32_t column_quantum = 16;  // columns of a panel: ranges begin at its multiples
  int64_t local_bytes = 0;      // for S in f32 of one fused item; 0: no limit
  // Of split plans: inputs of a slice of k are a multiple of the quantum, and of K and these two
  // alone, so that a sum is cut alike in every company.
  int32_t slice_quantum = 512;
  int32_t most_slices = 8;

  int64_t SliceOf(int64_t k) const {
    const int64_t part = (k + most_slices - 1) / most_slices;
    return (part + slice_quantum - 1) / slice_quantum * slice_quantum;
  }
  int64_t SlicesOf(int64_t k) const { return (k + SliceOf(k) - 1) / SliceOf(k); }
};

// Rounds of a split plan.
constexpr int32_t kSplitRounds = 2;

// S of a (site of the call, segment): rows of the segment by tiles of the slot at that site.
struct ScratchSpan {
  int64_t s_offset = 0;  // in floats, into the S scratch of the call
  int32_t tiles = 0;     // of the slot at that site; 0: the slot does not act there
};

// S[rows, tiles] = scale * x[rows] * A[tiles]^T for one segment at one site of the call.
struct ShrinkItem {
  int32_t segment = 0;
  int32_t part = 0;       // which site of the call
  int32_t row_begin = 0;  // in SegmentTable::order()
  int32_t row_end = 0;
  int32_t tile_begin = 0;
  int32_t tile_end = 0;
  int64_t s_offset = 0;  // of (row_begin, tile_begin), in floats
  int32_t s_stride = 0;  // floats from row to row
  // Of split plans: the inputs that are summed; S is then [tiles][rows][slices][rank_quantum], and
  // s_offset that of (tile 0, row_begin, this slice). Else 0, and all inputs are.
  int32_t k_begin = 0;
  int32_t k_end = 0;
  // Of split plans: all workers meet between their shrinks of each round and its expands. A worker
  // does all its shrinks, round by round, then its expands.
  int32_t round = 0;
};

// y[rows, columns] += S[rows, all tiles] * B[all tiles, columns]^T, tiles in order.
struct ExpandItem {
  int32_t segment = 0;
  int32_t part = 0;
  int32_t row_begin = 0;  // in SegmentTable::order()
  int32_t row_end = 0;
  int32_t column_begin = 0;
  int32_t column_end = 0;
  int32_t tiles = 0;
  int64_t s_offset = 0;  // of (row_begin, tile 0), in floats
  int32_t s_stride = 0;
  int32_t round = 0;
};

// Shrink and expand by one worker, S staying local; segments of equal rank may be side by side:
// `segment_end - segment_begin` of them, whole, share one block of row_quantum rows. An item of
// one segment may hold a part of its rows.
struct FusedItem {
  int32_t segment_begin = 0;
  int32_t segment_end = 0;
  int32_t part = 0;
  int32_t row_begin = 0;
  int32_t row_end = 0;
  int32_t column_begin = 0;
  int32_t column_end = 0;
};

// The planner's own: rows of one segment at one part, before columns are cut and items shared out.
struct FusedBlock {
  int32_t part = 0;
  int32_t segment = 0;
  int32_t row_begin = 0;
  int32_t row_end = 0;
  int32_t tiles = 0;
  int32_t pieces = 1;       // column ranges
  int64_t fixed_cost = 0;   // paid again by every piece: x, A, the shrink
  int64_t column_cost = 0;  // shared by the pieces: B, y, the expand
};

struct LoraPlan {
  int32_t workers = 0;
  int32_t parts = 0;
  int64_t s_floats = 0;  // scratch that the call needs
  // [parts * segments], part-major.
  std::vector<ScratchSpan> scratch;
  // Items of worker w: [begin[w], begin[w + 1]). The meeting of all workers lies between shrinks
  // and expands. Expands of a worker are ordered by (part, column_begin, segment).
  std::vector<ShrinkItem> shrinks;
  std::vector<int32_t> shrink_begin;
  std::vector<ExpandItem> expands;
  std::vector<int32_t> expand_begin;
  std::vector<FusedItem> fused;
  std::vector<int32_t> fused_begin;
  std::vector<FusedBlock> blocks;  // kept for its storage; kernels do not read it

  // No tile at any site of the call: the linear is the base product alone.
  bool empty() const { return expands.empty() && fused.empty(); }
  const ScratchSpan& Scratch(int32_t part, int32_t segment, int32_t segments) const {
    return scratch[static_cast<size_t>(part) * static_cast<size_t>(segments) +
                   static_cast<size_t>(segment)];
  }
};

// The sites of one call.
struct CallSites {
  CallKind call = CallKind::kQkv;
  int32_t layer = 0;
  int32_t parts = 0;
  std::array<SiteId, kMaxCallSites> site;
  std::array<SiteShape, kMaxCallSites> shape;  // equal k
};

// The columns of [0, n) that worker `w` writes: whole panels, the same for the base product and
// for the expands, so that one worker owns an element of y.
struct ColumnRange {
  int32_t begin = 0;
  int32_t end = 0;
};
ColumnRange WorkerColumns(int64_t n, int32_t column_quantum, int32_t workers, int32_t worker);

// Plans of one step. Plan(call) returns the shared plan of the call's signature, building it at
// its first use: (K, N of the parts, CallClass of each active slot).
class StepPlanner {
 public:
  explicit StepPlanner(PlanLimits limits);

  // Starts a step. `segments` and `table` must outlive the use of its plans.
  void Begin(const SegmentTable* segments, const WeightTable* table);
  // Never null; an empty plan when no active slot acts at the call. Valid until the next Begin.
  const LoraPlan* Plan(const CallSites& call);

  const PlanLimits& limits() const { return limits_; }
  int32_t distinct_plans() const;  // built since Begin
  int64_t max_s_floats() const;    // over plans built since Begin

 private:
  struct Cached {
    std::vector<uint64_t> signature;
    LoraPlan plan;
  };

  PlanLimits limits_;
  const SegmentTable* segments_ = nullptr;
  const WeightTable* table_ = nullptr;
  std::deque<Cached> cached_;  // storage is kept from step to step; addresses stay
  int32_t used_ = 0;
  LoraPlan empty_;
  std::vector<uint64_t> signature_;
};

// Builds one plan; StepPlanner calls it, tests too.
void BuildPlan(const CallSites& call, const SegmentTable& segments, const WeightTable& table,
               const PlanLimits& limits, LoraPlan* plan);

// Most floats of S scratch that any call of at most `rows` rows needs, when each row has at most
// `max_tiles_per_row` tiles over the parts of a call.
int64_t ScratchBound(int64_t rows, int64_t max_tiles_per_row, int32_t rank_quantum);

}  // namespace lorica::lora
