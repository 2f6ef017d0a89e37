#include "lorica/lora/plan.h"

#include <algorithm>

#include "lorica/base/thread_pool.h"
#include "lorica/lora/plan_builders.h"

namespace lorica::lora {
namespace {

void Reset(int32_t workers, int32_t parts, LoraPlan* plan) {
  plan->workers = workers;
  plan->parts = parts;
  plan->s_floats = 0;
  plan->scratch.clear();
  plan->shrinks.clear();
  plan->expands.clear();
  plan->fused.clear();
  plan->blocks.clear();
  const auto borders = static_cast<size_t>(workers) + 1;
  plan->shrink_begin.assign(borders, 0);
  plan->expand_begin.assign(borders, 0);
  plan->fused_begin.assign(borders, 0);
}

}  // namespace

ColumnRange WorkerColumns(int64_t n, int32_t column_quantum, int32_t workers, int32_t worker) {
  const int64_t panels = (n + column_quantum - 1) / column_quantum;
  const IndexRange share = SplitRange(panels, workers, worker);
  return {static_cast<int32_t>(std::min(share.begin * column_quantum, n)),
          static_cast<int32_t>(std::min(share.end * column_quantum, n))};
}

void BuildPlan(const CallSites& call, const SegmentTable& segments, const WeightTable& table,
               const PlanLimits& limits, LoraPlan* plan) {
  LORICA_CHECK(call.parts > 0 && call.parts <= kMaxCallSites && limits.workers > 0);
  Reset(limits.workers, call.parts, plan);
  const PlanInput input{call, segments, table, limits};
  for (int32_t part = 0; part < call.parts; ++part) {
    for (const Segment& segment : segments.segments()) {
      const int32_t tiles = table.TileCountAt(segment.slot, call.site[static_cast<size_t>(part)]);
      plan->scratch.push_back({0, tiles});
    }
  }
  if (limits.form == PlanLimits::Form::kTwoPhase) {
    BuildTwoPhase(input, plan);
  } else if (limits.form == PlanLimits::Form::kFused) {
    BuildFused(input, plan);
  } else {
    BuildSplit(input, plan);
  }
}

int64_t ScratchBound(int64_t rows, int64_t max_tiles_per_row, int32_t rank_quantum) {
  return rows * max_tiles_per_row * rank_quantum;
}

StepPlanner::StepPlanner(PlanLimits limits) : limits_(limits) { Reset(limits.workers, 0, &empty_); }

void StepPlanner::Begin(const SegmentTable* segments, const WeightTable* table) {
  segments_ = segments;
  table_ = table;
  used_ = 0;
}

const LoraPlan* StepPlanner::Plan(const CallSites& call) {
  LORICA_CHECK(segments_ != nullptr && table_ != nullptr);
  signature_.clear();
  for (int32_t part = 0; part < call.parts; ++part) {
    const SiteShape& shape = call.shape[static_cast<size_t>(part)];
    signature_.push_back(static_cast<uint64_t>(shape.k));
    signature_.push_back(static_cast<uint64_t>(shape.n));
  }
  // The count of parts is part of the signature: the number of segments is the step's.
  uint64_t any = 0;
  for (const Segment& segment : segments_->segments()) {
    const uint64_t call_class = table_->CallClass(segment.slot, call.layer, call.call);
    any |= call_class;
    signature_.push_back(call_class);
  }
  if (any == 0) return &empty_;

  for (int32_t i = 0; i < used_; ++i) {
    const Cached& cached = cached_[static_cast<size_t>(i)];
    if (cached.signature == signature_) return &cached.plan;
  }
  if (static_cast<size_t>(used_) == cached_.size()) cached_.emplace_back();
  Cached& cached = cached_[static_cast<size_t>(used_++)];
  cached.signature = signature_;
  BuildPlan(call, *segments_, *table_, limits_, &cached.plan);
  return &cached.plan;
}

int32_t StepPlanner::distinct_plans() const { return used_; }

int64_t StepPlanner::max_s_floats() const {
  int64_t most = 0;
  for (int32_t i = 0; i < used_; ++i) {
    most = std::max(most, cached_[static_cast<size_t>(i)].plan.s_floats);
  }
  return most;
}

}  // namespace lorica::lora
