// Device code of the operator on both architectures: the words of an item, and its columns chunk by
// chunk. One core owns each object; C++17, no standard library.
#pragma once

#include "kernel_operator.h"
#include "lorica/kernels/ascend/lora_program.h"

namespace lorica {
namespace ascend {

// Items that do everything on one core, or shrinks of a slice of k, a meeting, and expands.
enum class Form { kWhole, kSplit };

// The words of one item.
class Item {
 public:
  __aicore__ inline void Read(AscendC::GlobalTensor<uint64_t>& words, uint32_t at) {
    const uint64_t size = words.GetValue(at + kItemSize);
    const uint64_t shape = words.GetValue(at + kItemShape);
    const uint64_t range = words.GetValue(at + kItemColumns);
    next = at + static_cast<uint32_t>(size);
    rows = FieldOf(size, 2);
    runs = FieldOf(size, 3);
    inner = FieldOf(shape, 0);
    tiles = FieldOf(shape, 1);
    members = FieldOf(shape, 2);
    steps = FieldOf(shape, 3);
    column_begin = FieldOf(range, 0);
    column_end = FieldOf(range, 1);
    pitch = FieldOf(range, 2);
    group = FieldOf(range, 3);
    row_blocks = (rows + kFractal - 1) / kFractal;
    padded = row_blocks * kFractal;
    slices = steps >> 8;
    steps &= 255;
    groups = (tiles + kGroupTiles - 1) / kGroupTiles;
    runs_at = at + kItemHead;
    members_at = runs_at + runs * kRunWords;
    tiles_at = members_at + members * kMemberWords;
  }
  // Addresses, which few readers of an item need: each word costs the scalar unit time.
  __aicore__ inline uint64_t Y(AscendC::GlobalTensor<uint64_t>& words) const {
    return words.GetValue(runs_at - kItemHead + kItemY);
  }
  __aicore__ inline uint64_t Sums(AscendC::GlobalTensor<uint64_t>& words) const {
    return words.GetValue(runs_at - kItemHead + kItemSums);
  }
  // The group after the one at hand, and its tiles.
  __aicore__ inline void NextGroup() { group = group + 1 == groups ? 0 : group + 1; }
  __aicore__ inline uint32_t GroupTiles() const {
    const uint32_t left = tiles - group * kGroupTiles;
    return left < kGroupTiles ? left : kGroupTiles;
  }

  // Tiles of S, from `tile` on, whose slices come at once.
  __aicore__ inline uint32_t SumTiles(uint32_t tile) const {
    const uint32_t most = kMaxRows / padded;
    return tiles - tile < most ? tiles - tile : most;
  }

  uint32_t next = 0;
  uint32_t rows = 0;
  uint32_t row_blocks = 0;
  uint32_t padded = 0;
  uint32_t inner = 0;
  uint32_t tiles = 0;
  uint32_t groups = 0;
  uint32_t group = 0;
  uint32_t members = 0;
  uint32_t runs = 0;
  uint32_t column_begin = 0;
  uint32_t column_end = 0;
  uint32_t pitch = 0;
  uint32_t steps = 0;
  uint32_t slices = 0;
  uint32_t runs_at = 0;
  uint32_t members_at = 0;
  uint32_t tiles_at = 0;
};

// The columns of one member, chunk by chunk, from the chunk where this core begins.
class Chunks {
 public:
  __aicore__ inline void Begin(AscendC::GlobalTensor<uint64_t>& words, const Item& item,
                               uint32_t member) {
    const uint32_t at = item.members_at + member * kMemberWords;
    const uint64_t span = words.GetValue(at + kMemberSpan);
    const uint64_t chunk = words.GetValue(at + kMemberChunk);
    run_begin = FieldOf(span, 0);
    run_end = FieldOf(span, 1);
    tile = FieldOf(span, 2);
    tiles = FieldOf(span, 3);
    width_ = FieldOf(chunk, 0);
    begin_ = item.column_begin;
    end_ = item.column_end;
    at_ = begin_ + FieldOf(chunk, 1) * width_;
    left_ = (end_ - begin_ + width_ - 1) / width_;
    s_at = FieldOf(chunk, 2);
    batch = FieldOf(chunk, 3);
    first_ = true;
    Place();
  }
  __aicore__ inline bool Done() const { return left_ == 0; }
  __aicore__ inline bool First() const { return first_; }
  __aicore__ inline bool Last() const { return left_ == 1; }
  __aicore__ inline void Next() {
    first_ = false;
    --left_;
    at_ += width_;
    if (at_ >= end_) at_ = begin_;
    Place();
  }

  uint32_t run_begin = 0;
  uint32_t run_end = 0;
  uint32_t tile = 0;
  uint32_t tiles = 0;
  uint32_t column = 0;
  uint32_t columns = 0;
  // Of split expands.
  uint32_t s_at = 0;
  uint32_t batch = 0;

 private:
  __aicore__ inline void Place() {
    column = at_;
    columns = end_ - at_ < width_ ? end_ - at_ : width_;
  }
  uint32_t width_ = 0;
  uint32_t begin_ = 0;
  uint32_t end_ = 0;
  uint32_t at_ = 0;
  uint32_t left_ = 0;
  bool first_ = false;
};

}  // namespace ascend
}  // namespace lorica
