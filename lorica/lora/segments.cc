#include "lorica/lora/segments.h"

#include <algorithm>
#include <cstddef>

namespace lorica::lora {

void SegmentTable::Build(std::span<const SlotId> slots) {
  order_.clear();
  segments_.clear();
  bool ordered = true;
  SlotId last = kBaseModel;
  for (size_t row = 0; row < slots.size(); ++row) {
    if (slots[row] == kBaseModel) continue;
    ordered = ordered && last <= slots[row];
    last = slots[row];
    order_.push_back(static_cast<int32_t>(row));
  }
  // The row breaks ties, which makes the in-place sort stable without its buffer.
  if (!ordered) {
    std::sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) {
      const SlotId slot_a = slots[static_cast<size_t>(a)];
      const SlotId slot_b = slots[static_cast<size_t>(b)];
      return slot_a != slot_b ? slot_a < slot_b : a < b;
    });
  }

  contiguous_ = true;
  for (size_t i = 0; i < order_.size(); ++i) {
    const SlotId slot = slots[static_cast<size_t>(order_[i])];
    const auto position = static_cast<int32_t>(i);
    if (segments_.empty() || segments_.back().slot != slot) {
      segments_.push_back({slot, position, position});
    }
    ++segments_.back().end;
    contiguous_ = contiguous_ && order_[i] == order_[0] + position;
  }
}

}  // namespace lorica::lora
