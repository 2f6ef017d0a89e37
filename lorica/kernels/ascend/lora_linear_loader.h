// Device code of lora_linear.cpp: where everything lies in the core's memories, an item's words,
// and the Loader, which brings x, A, B and y from memory into L1 ahead of their use. One core owns
// each object; C++17, no standard library.
#pragma once

#include "kernel_operator.h"
#include "lorica/kernels/ascend/lora_program.h"

namespace lorica {
namespace ascend {

using AscendC::HardEvent;
using AscendC::TPosition;

// L1, in bytes.
constexpr uint32_t kXBytes = kMaxRows * kBlock * 2;
constexpr uint32_t kSlotWeights = kGroupTiles * kFractal * kBlock * 2;
constexpr uint32_t kSlotY = 16384;
constexpr uint32_t kSlotBytes = kSlotWeights + kSlotY;
constexpr uint32_t kSlots = 4;
constexpr uint32_t kSlotAt = 2 * kXBytes;
constexpr uint32_t kSAt = kSlotAt + kSlots * kSlotBytes;
constexpr uint32_t kIdentityAt = kSAt + kMaxRowRanks * 2;
constexpr uint32_t kIdentityFractals = 1;
// L0A: two halves; while expanding, S lies in the first and two tiles of y in the second.
constexpr uint32_t kHalfL0 = 32768;
// L0B: two halves; while expanding, the identity lies at the end of each.
constexpr uint32_t kIdentityL0 = kHalfL0 - kIdentityFractals * kFractalBytes;
// L0C: S, then two tiles of y.
constexpr uint32_t kYL0C = kMaxRowRanks * 4;
constexpr uint32_t kYL0CBytes = 32768;

// The words of one item.
class Item {
 public:
  __aicore__ inline void Read(AscendC::GlobalTensor<uint64_t>& words, uint32_t at) {
    const uint64_t size = words.GetValue(at + kItemSize);
    const uint64_t shape = words.GetValue(at + kItemShape);
    const uint64_t range = words.GetValue(at + kItemColumns);
    y = words.GetValue(at + kItemY);
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
    groups = (tiles + kGroupTiles - 1) / kGroupTiles;
    runs_at = at + kItemHead;
    members_at = runs_at + runs * kRunWords;
    tiles_at = members_at + members * kMemberWords;
  }
  // The group after the one at hand, and its tiles.
  __aicore__ inline void NextGroup() { group = group + 1 == groups ? 0 : group + 1; }
  __aicore__ inline uint32_t GroupTiles() const {
    const uint32_t left = tiles - group * kGroupTiles;
    return left < kGroupTiles ? left : kGroupTiles;
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
  uint64_t y = 0;
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
    Place();
  }
  __aicore__ inline bool Done() const { return left_ == 0; }
  __aicore__ inline void Next() {
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
};

// GM -> L1, ahead of the rest: the load of every unit (the A tiles of a group at a block of k, or
// the B tiles and y of a chunk) is issued up to kSlots units before the unit is used, over the
// borders of phases and items, so that MTE2 never waits for the scalar unit.
template <typename T, typename Y, bool kLoadsY>
class Loader {
 public:
  __aicore__ inline void Begin(GM_ADDR x, GM_ADDR program, uint32_t item, uint32_t items) {
    words_.SetGlobalBuffer(reinterpret_cast<__gm__ uint64_t*>(program));
    x_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x));
    items_ = items;
    item_.Read(words_, item);
  }
  // Issues what may be issued. A slot is free again once its last reader has been issued.
  __aicore__ inline void Run() {
    while (items_ > 0 && loaded_ - used_ < kSlots) {
      if (!expanding_) {
        if (group_ == 0 && x_loaded_ - x_used_ == 2) return;
        LoadShrink();
      } else {
        LoadExpand();
      }
    }
  }
  __aicore__ inline uint32_t Slot() const { return used_ % kSlots; }
  __aicore__ inline uint32_t XSlot() const { return x_used_ & 1; }
  __aicore__ inline void Use() { ++used_; }
  __aicore__ inline void UseX() { ++x_used_; }

 private:
  __aicore__ inline void LoadShrink() {
    const uint32_t left = item_.inner - k_;
    const uint32_t columns = left < kBlock ? left : kBlock;
    if (group_ == 0) {
      const uint32_t turn = x_loaded_++ & 1;
      AscendC::WaitFlag<HardEvent::MTE1_MTE2>(kSlots + turn);
      for (uint32_t r = 0; r < item_.runs; ++r) {
        CopyRows(x_, turn * kXBytes, item_.runs_at + r * kRunWords, item_.inner, k_, columns);
      }
      AscendC::SetFlag<HardEvent::MTE2_MTE1>(kSlots + turn);
    }
    const uint32_t slot = loaded_++ % kSlots;
    AscendC::WaitFlag<HardEvent::MTE1_MTE2>(slot);
    CopyTiles(kTileA, item_.group * kGroupTiles, item_.GroupTiles(), slot, k_, columns);
    AscendC::SetFlag<HardEvent::MTE2_MTE1>(slot);
    item_.NextGroup();
    if (++group_ < item_.groups) return;
    group_ = 0;
    k_ += kBlock;
    if (k_ < item_.inner) return;
    expanding_ = true;
    member_ = 0;
    y_.SetGlobalBuffer(reinterpret_cast<__gm__ Y*>(item_.y));
    chunks_.Begin(words_, item_, 0);
  }

  __aicore__ inline void LoadExpand() {
    const uint32_t slot = loaded_++ % kSlots;
    AscendC::WaitFlag<HardEvent::MTE1_MTE2>(slot);
    CopyTiles(kTileB, chunks_.tile, chunks_.tiles, slot, chunks_.column, chunks_.columns);
    if (kLoadsY) {
      for (uint32_t r = chunks_.run_begin; r < chunks_.run_end; ++r) {
        CopyRows(y_, kSlotAt + slot * kSlotBytes + kSlotWeights, item_.runs_at + r * kRunWords,
                 item_.pitch, chunks_.column, chunks_.columns);
      }
    }
    AscendC::SetFlag<HardEvent::MTE2_MTE1>(slot);
    chunks_.Next();
    if (!chunks_.Done()) return;
    if (++member_ < item_.members) {
      chunks_.Begin(words_, item_, member_);
      return;
    }
    expanding_ = false;
    k_ = 0;
    if (--items_ > 0) item_.Read(words_, item_.next);
  }

  // `length` of each of `tiles` tiles from `from` on, along k or along the columns: fractals that
  // follow each other.
  __aicore__ inline void CopyTiles(uint32_t factor, uint32_t tile, uint32_t tiles, uint32_t slot,
                                   uint32_t from, uint32_t length) {
    const uint32_t elements = length * kFractal;
    for (uint32_t t = 0; t < tiles; ++t) {
      const uint32_t word = item_.tiles_at + (tile + t) * kTileWords + factor;
      weights_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(words_.GetValue(word)));
      AscendC::DataCopy(
          AscendC::LocalTensor<T>(TPosition::B1, kSlotAt + slot * kSlotBytes + t * elements * 2,
                                  elements),
          weights_[from * kFractal], elements);
    }
  }

  // One run of rows of x or y, `columns` of them, into L1: a fractal column after another.
  template <typename E>
  __aicore__ inline void CopyRows(AscendC::GlobalTensor<E>& from, uint32_t to, uint32_t run,
                                  uint32_t pitch, uint32_t column, uint32_t columns) {
    const uint64_t where = words_.GetValue(run);
    const uint32_t count = FieldOf(where, 3);
    AscendC::Nd2NzParams params;
    params.nValue = static_cast<uint16_t>(count);
    params.dValue = static_cast<uint16_t>(columns);
    params.srcDValue = static_cast<uint16_t>(pitch);
    params.dstNzC0Stride = static_cast<uint16_t>(item_.padded);
    params.dstNzNStride = 1;
    AscendC::DataCopy(
        AscendC::LocalTensor<E>(TPosition::A1, to + FieldOf(where, 2) * 32,
                                (columns - kFractal) * item_.padded + count * kFractal),
        from[static_cast<uint64_t>(static_cast<uint32_t>(where)) * pitch + column], params);
  }

  AscendC::GlobalTensor<uint64_t> words_;
  AscendC::GlobalTensor<T> x_;
  AscendC::GlobalTensor<T> weights_;
  AscendC::GlobalTensor<Y> y_;
  Item item_;
  Chunks chunks_;
  uint32_t items_ = 0;  // left
  bool expanding_ = false;
  uint32_t k_ = 0;
  uint32_t group_ = 0;  // groups done at this k
  uint32_t member_ = 0;
  // Units so far: issued here, used by MTE1.
  uint32_t loaded_ = 0;
  uint32_t used_ = 0;
  uint32_t x_loaded_ = 0;
  uint32_t x_used_ = 0;
};

}  // namespace ascend
}  // namespace lorica
