// Device code of lora_linear_cube.h: the Loader, which brings x, A, B, y and the sums of slices
// from memory into L1 ahead of their use. One core owns each object; C++17, no standard library.
#pragma once

#include "kernel_operator.h"
#include "lorica/kernels/ascend/lora_linear_item.h"
#include "lorica/kernels/ascend/lora_linear_l0.h"
#include "lorica/kernels/ascend/lora_linear_memory.h"

namespace lorica {
namespace ascend {

// Of the kernel.
struct Arguments {
  GM_ADDR x;
  GM_ADDR program;
  GM_ADDR identity;
};

// GM -> L1, ahead of the rest: the load of every unit (the A tiles of a group at a block of k, or
// the B tiles and y of a chunk) is issued up to kSlots units before the unit is used, over the
// borders of phases and items, so that MTE2 never waits for the scalar unit.
template <typename T, typename Y, bool kLoadsY, Form kForm>
class Loader {
 public:
  // `share` and `rest`: the core's words.
  __aicore__ inline void Begin(const Arguments& in, uint64_t share, uint64_t rest) {
    words_.SetGlobalBuffer(reinterpret_cast<__gm__ uint64_t*>(in.program));
    x_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(in.x));
    identity_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(in.identity));
    const uint32_t first = static_cast<uint32_t>(share);
    items_ = FieldOf(rest, 0) + FieldOf(rest, 1);
    if (kForm == Form::kWhole) {
      item_.Read(words_, first);
      return;
    }
    program_ = in.program;
    shrinks_ = FieldOf(share, 2) + FieldOf(share, 3);
    sum_items_ = items_;
    last_items_ = FieldOf(rest, 1);
    lead_[0] = FieldOf(rest, 2);
    lead_[1] = FieldOf(rest, 3);
    sum_at_ = first;
    if (shrinks_ + items_ > 0) item_.Read(words_, first);
    k_ = item_.column_begin;
    if (shrinks_ == 0 && items_ > 0) BeginExpand();
  }
  // Issues what may be issued. A slot is free again once its last reader has been issued.
  __aicore__ inline void Run() {
    while (true) {
      if (kForm == Form::kSplit && SlicesMayCome()) {
        LoadSlices();
        continue;
      }
      if (shrinks_ + items_ == 0 || loaded_ - used_ == kSlots) return;
      if (!expanding_) {
        if (group_ == 0 && x_loaded_ - x_used_ == 2) return;
        LoadShrink();
      } else {
        if (kForm == Form::kSplit && SlicesComeFirst()) return;
        LoadExpand();
      }
    }
  }
  // The next sums are needed at once.
  __aicore__ inline void Need() {
    Run();
    if (x_loaded_ == x_used_) LoadSlices();
  }
  // This core's sums of one more round are on their way to memory.
  __aicore__ inline void Sent() { ++sent_; }
  // Takes the flags of rounds in which the core has no expands.
  __aicore__ inline void End() {
    while (waited_ < kRounds) WaitRound();
  }
  __aicore__ inline uint32_t Slot() const { return used_ % kSlots; }
  __aicore__ inline uint32_t XSlot() const { return x_used_ & 1; }
  __aicore__ inline void Use() { ++used_; }
  __aicore__ inline void UseX() { ++x_used_; }

 private:
  __aicore__ inline void LoadShrink() {
    const uint32_t end = kForm == Form::kSplit ? item_.column_end : item_.inner;
    const uint32_t left = end - k_;
    const uint32_t columns = left < kBlock ? left : kBlock;
    if (group_ == 0) {
      const uint32_t turn = x_loaded_++ & 1;
      AscendC::WaitFlag<HardEvent::MTE1_MTE2>(kSlots + turn);
      for (uint32_t r = 0; r < item_.runs; ++r) {
        Rows rows;
        rows.to = turn * kXBytes;
        rows.run = item_.runs_at + r * kRunWords;
        rows.pitch = item_.inner;
        rows.column = k_;
        rows.columns = columns;
        CopyRows(x_, rows);
      }
      AscendC::SetFlag<HardEvent::MTE2_MTE1>(kSlots + turn);
    }
    const uint32_t slot = loaded_++ % kSlots;
    AscendC::WaitFlag<HardEvent::MTE1_MTE2>(slot);
    Tiles tiles;
    tiles.factor = kTileA;
    tiles.tile = item_.group * kGroupTiles;
    tiles.count = item_.GroupTiles();
    tiles.slot = slot;
    tiles.from = k_;
    tiles.length = columns;
    CopyTiles(tiles);
    AscendC::SetFlag<HardEvent::MTE2_MTE1>(slot);
    item_.NextGroup();
    if (++group_ < item_.groups) return;
    group_ = 0;
    k_ += kBlock;
    if (k_ < end) return;
    if (kForm == Form::kSplit) {
      sum_at_ = item_.next;
      if (--shrinks_ + items_ > 0) item_.Read(words_, sum_at_);
      k_ = item_.column_begin;
      if (shrinks_ == 0 && items_ > 0) BeginExpand();
      return;
    }
    BeginExpand();
  }

  __aicore__ inline void BeginExpand() {
    expanding_ = true;
    member_ = 0;
    y_.SetGlobalBuffer(reinterpret_cast<__gm__ Y*>(item_.Y(words_)));
    chunks_.Begin(words_, item_, 0);
  }

  __aicore__ inline void LoadExpand() {
    const uint32_t slot = loaded_++ % kSlots;
    AscendC::WaitFlag<HardEvent::MTE1_MTE2>(slot);
    // The flags of all units from here on say that the identity is there, too.
    if (kLoadsY && ahead_ == 0) {
      constexpr uint32_t elements = kIdentityFractals * kFractalElements;
      AscendC::DataCopy(AscendC::LocalTensor<T>(TPosition::B1, kIdentityAt, elements), identity_,
                        elements);
    }
    ++ahead_;
    Tiles tiles;
    tiles.factor = kTileB;
    tiles.tile = chunks_.tile;
    tiles.count = chunks_.tiles;
    tiles.slot = slot;
    tiles.from = chunks_.column;
    tiles.length = chunks_.columns;
    CopyTiles(tiles);
    if (kLoadsY) {
      for (uint32_t r = chunks_.run_begin; r < chunks_.run_end; ++r) {
        Rows rows;
        rows.to = kSlotAt + slot * kSlotBytes + kSlotWeights;
        rows.run = item_.runs_at + r * kRunWords;
        rows.pitch = item_.pitch;
        rows.column = chunks_.column;
        rows.columns = chunks_.columns;
        CopyRows(y_, rows);
      }
    }
    AscendC::SetFlag<HardEvent::MTE2_MTE1>(slot);
    chunks_.Next();
    if (!chunks_.Done()) return;
    if (++member_ < item_.members) {
      chunks_.Begin(words_, item_, member_);
      return;
    }
    if (--items_ > 0) item_.Read(words_, item_.next);
    if (kForm == Form::kSplit) {
      if (items_ > 0) BeginExpand();
      return;
    }
    expanding_ = false;
    k_ = 0;
  }

  // The sums of the next round, of all cores, are in memory.
  __aicore__ inline void WaitRound() {
    AscendC::CrossCoreWaitFlag<0, PIPE_MTE2>(static_cast<uint16_t>(kAllSlices + waited_++));
  }
  // The round of the expand whose sums come next.
  __aicore__ inline uint32_t SumRound() const { return sum_items_ > last_items_ ? 0 : 1; }
  // Whether a round's sums are likely in memory once what is loaded so far is here.
  __aicore__ inline bool Due(uint32_t round) const { return ahead_ >= lead_[round]; }
  __aicore__ inline bool SlicesMayCome() const {
    const uint32_t round = SumRound();
    return shrinks_ == 0 && sum_items_ > 0 && sent_ > round && Due(round) &&
           x_loaded_ - x_used_ < 2;
  }
  // The first sums go before the units that are loaded ahead.
  __aicore__ inline bool SlicesComeFirst() const {
    const uint32_t round = SumRound();
    return waited_ == 0 && sum_items_ > 0 && sent_ > round && Due(round);
  }

  // Slices of tiles of the next batch, as many as a slot takes, and their scaled identities.
  __aicore__ inline void LoadSlices() {
    while (waited_ <= SumRound()) WaitRound();
    const uint32_t turn = x_loaded_++ & 1;
    AscendC::WaitFlag<HardEvent::MTE1_MTE2>(kSlots + turn);
    uint32_t at = 0;
    do {
      if (sum_tile_ == 0) {
        sum_item_.Read(words_, sum_at_);
        const uint32_t chunk = sum_item_.members_at + kMemberChunk;
        if (batch_left_ == 0) batch_left_ = FieldOf(words_.GetValue(chunk), 3);
      }
      const uint32_t tiles = sum_item_.SumTiles(sum_tile_);
      CopySlices(tiles, turn * kXBytes, at);
      at += tiles;
      sum_tile_ += tiles;
      batch_left_ -= tiles;
      if (sum_tile_ == sum_item_.tiles) {
        sum_tile_ = 0;
        sum_at_ = sum_item_.next;
        --sum_items_;
      }
    } while (sum_tile_ == 0 && batch_left_ != 0);
    AscendC::SetFlag<HardEvent::MTE2_MTE1>(kSlots + turn);
  }

  // Of the item at hand, from its tile `sum_tile_` on, to the places of tiles from `at` on.
  __aicore__ inline void CopySlices(uint32_t tiles, uint32_t to, uint32_t at) {
    const uint32_t columns = sum_item_.slices * kFractal;
    const uint32_t elements = sum_item_.padded * columns;
    AscendC::GlobalTensor<float> sums;
    sums.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(sum_item_.Sums(words_)));
    AscendC::Nd2NzParams params;
    params.ndNum = static_cast<uint16_t>(tiles);
    params.nValue = static_cast<uint16_t>(sum_item_.rows);
    params.dValue = static_cast<uint16_t>(columns);
    params.srcNdMatrixStride = static_cast<uint16_t>(sum_item_.rows * columns);
    params.srcDValue = static_cast<uint16_t>(columns);
    params.dstNzC0Stride = static_cast<uint16_t>(sum_item_.padded);
    params.dstNzNStride = 1;
    params.dstNzMatrixStride = static_cast<uint16_t>(elements);
    AscendC::DataCopy(
        AscendC::LocalTensor<float>(TPosition::A1, to + at * elements * 4, tiles * elements),
        sums[sum_tile_ * sum_item_.rows * columns], params);
    AscendC::GlobalTensor<float> scale;
    for (uint32_t t = 0; t < tiles; ++t) {
      const uint64_t number =
          words_.GetValue(sum_item_.tiles_at + (sum_tile_ + t) * kTileWords + kTileScale);
      scale.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(
          program_ + words_.GetValue(kScalesAt) * 8 + number * kWideFractals * kFractalBytes));
      const uint32_t scale_elements = kWideFractals * kWideElements;
      AscendC::DataCopy(AscendC::LocalTensor<float>(
                            TPosition::B1, to + kScaleAt + (at + t) * kWideFractals * kFractalBytes,
                            scale_elements),
                        scale, scale_elements);
    }
  }

  // `length` of each of `count` tiles, from `from` on, along k or along the columns: fractals that
  // follow each other.
  struct Tiles {
    uint32_t factor = 0;  // its word
    uint32_t tile = 0;
    uint32_t count = 0;
    uint32_t slot = 0;
    uint32_t from = 0;
    uint32_t length = 0;
  };
  __aicore__ inline void CopyTiles(const Tiles& tiles) {
    const uint32_t elements = tiles.length * kFractal;
    for (uint32_t t = 0; t < tiles.count; ++t) {
      const uint32_t word = item_.tiles_at + (tiles.tile + t) * kTileWords + tiles.factor;
      weights_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(words_.GetValue(word)));
      AscendC::DataCopy(
          AscendC::LocalTensor<T>(TPosition::B1,
                                  kSlotAt + tiles.slot * kSlotBytes + t * elements * 2, elements),
          weights_[tiles.from * kFractal], elements);
    }
  }

  // One run of rows of x or y, `columns` of them, into L1: a fractal column after another.
  struct Rows {
    uint32_t to = 0;   // bytes
    uint32_t run = 0;  // its word
    uint32_t pitch = 0;
    uint32_t column = 0;
    uint32_t columns = 0;
  };
  template <typename E>
  __aicore__ inline void CopyRows(AscendC::GlobalTensor<E>& from, const Rows& rows) {
    const uint64_t where = words_.GetValue(rows.run);
    const uint32_t count = FieldOf(where, 3);
    AscendC::Nd2NzParams params;
    params.nValue = static_cast<uint16_t>(count);
    params.dValue = static_cast<uint16_t>(rows.columns);
    params.srcDValue = static_cast<uint16_t>(rows.pitch);
    params.dstNzC0Stride = static_cast<uint16_t>(item_.padded);
    params.dstNzNStride = 1;
    AscendC::DataCopy(
        AscendC::LocalTensor<E>(TPosition::A1, rows.to + FieldOf(where, 2) * 32,
                                (rows.columns - kFractal) * item_.padded + count * kFractal),
        from[static_cast<uint64_t>(static_cast<uint32_t>(where)) * rows.pitch + rows.column],
        params);
  }

  AscendC::GlobalTensor<uint64_t> words_;
  AscendC::GlobalTensor<T> x_;
  AscendC::GlobalTensor<T> identity_;
  AscendC::GlobalTensor<T> weights_;
  AscendC::GlobalTensor<Y> y_;
  Item item_;
  Chunks chunks_;
  uint32_t shrinks_ = 0;  // left, of split items
  uint32_t items_ = 0;    // left, whole ones or expands
  bool expanding_ = false;
  // Of split expands: rounds whose sums this core has sent, and that it has waited for; units of
  // expands so far, and how many go before the sums of each round; items whose slices are not all
  // loaded, of them those of round 1, the first of them and its tiles so far; how many are loaded
  // and may be.
  uint32_t sent_ = 0;
  uint32_t waited_ = 0;
  uint32_t ahead_ = 0;
  uint32_t lead_[kRounds] = {};
  uint32_t sum_items_ = 0;
  uint32_t last_items_ = 0;
  uint32_t sum_at_ = 0;
  Item sum_item_;
  uint32_t sum_tile_ = 0;
  uint32_t batch_left_ = 0;
  GM_ADDR program_ = nullptr;
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
