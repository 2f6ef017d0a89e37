// SegmentTable: the rows of a list (all tokens, or the rows that want logits) ordered by (slot,
// row), stable; each run is a segment. Rows of the base model are left out: a kernel never sees
// them, so their result is exactly the base product. Built by the engine thread once a step into
// reused storage; read by kernels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lorica/lora/token_map.h"

namespace lorica::lora {

struct Segment {
  SlotId slot;
  int32_t begin = 0;  // in SegmentTable::order
  int32_t end = 0;
  int32_t size() const { return end - begin; }
};

class SegmentTable {
 public:
  // `slots[i]` is the slot of row i of the list. O(T log T) at worst, O(T) when already ordered.
  void Build(std::span<const SlotId> slots);

  // Rows that have an adapter, in segment order. [T']
  const std::vector<int32_t>& order() const { return order_; }
  const std::vector<Segment>& segments() const { return segments_; }
  bool empty() const { return segments_.empty(); }
  // True when order() is a run of consecutive ascending rows: no gather is needed.
  bool contiguous() const { return contiguous_; }

 private:
  std::vector<int32_t> order_;
  std::vector<Segment> segments_;
  bool contiguous_ = true;
};

}  // namespace lorica::lora
