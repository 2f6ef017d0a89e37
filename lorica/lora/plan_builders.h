// The forms of a plan, one function each; BuildPlan (plan.h) chooses. Both fill a plan whose
// lists are empty and whose scratch spans name the tiles. Pure functions of their arguments.
#pragma once

#include <algorithm>

#include "lorica/lora/plan.h"

namespace lorica::lora {

struct PlanInput {
  const CallSites& call;
  const SegmentTable& segments;
  const WeightTable& table;
  const PlanLimits& limits;

  int32_t segment_count() const { return static_cast<int32_t>(segments.segments().size()); }
  const Segment& segment(int32_t s) const { return segments.segments()[static_cast<size_t>(s)]; }
  const SiteShape& shape(int32_t part) const { return call.shape[static_cast<size_t>(part)]; }
  // Bytes of an element of the factors; the tiles of a span rarely differ, so the first stands
  // for all.
  int64_t ElementBytes(int32_t part, int32_t s) const {
    const SiteId site = call.site[static_cast<size_t>(part)];
    return ElementsToBytes(table.Entry(segment(s).slot, site).tiles[0].dtype, 1);
  }
};

// Most rows of one item, so that its S fits the core.
inline int32_t RowsThatFit(const PlanLimits& limits, int32_t tiles, int32_t most) {
  if (limits.local_bytes == 0) return most;
  const int64_t row_bytes = int64_t{tiles} * limits.rank_quantum * 4;
  const int64_t rows = limits.local_bytes / row_bytes / limits.row_quantum * limits.row_quantum;
  return static_cast<int32_t>(std::clamp<int64_t>(rows, std::min(limits.row_quantum, most), most));
}

void BuildTwoPhase(const PlanInput& input, LoraPlan* plan);
void BuildFused(const PlanInput& input, LoraPlan* plan);
void BuildSplit(const PlanInput& input, LoraPlan* plan);

}  // namespace lorica::lora
