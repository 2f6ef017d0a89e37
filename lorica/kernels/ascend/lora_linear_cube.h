// Device code of lora_linear.cpp and lora_linear_split.cpp: what one cube core of arch 2201 does
// with its share of a program. C++17, no standard library.
//
// Whole items: x streams by blocks of k past the A tiles of all adapters of the item; S stays in
// fp32 in L0C; one copy L0C -> L1 rounds it to T; then, adapter by adapter, y's tile enters L0C as
// y * I, S * B^T is added on it, and one Fixpipe rounds the sum once. With Y = float, y is added to
// by an fp32 atomic, which rounds once as well. Split items: a shrink's sum over its slice of k
// leaves L0C in fp32 for memory; the cores meet; an expand's S is the product of the slices' sums,
// side by side, with scaled identities below each other, in fp32: the slices added in their order,
// times the scale. From there on as above.
//
// Only the basic API, static tensors and flags by hand (lora_linear_memory.h lists them).
#pragma once

#include "kernel_operator.h"
#include "lorica/kernels/ascend/lora_linear_expand.h"
#include "lorica/kernels/ascend/lora_linear_shrink.h"
#include "lorica/kernels/ascend/lora_linear_sums.h"

namespace lorica {
namespace ascend {

template <typename T, typename Y, Residual kResidual, Form kForm>
class LoraLinear {
 public:
  __aicore__ inline LoraLinear()
      : shrink_(loader_, weight_turn_), expand_(words_, loader_, weight_turn_), sums_(loader_) {}

  __aicore__ inline void Run(GM_ADDR x, GM_ADDR program, GM_ADDR identity) {
    words_.SetGlobalBuffer(reinterpret_cast<__gm__ uint64_t*>(program));
    const uint32_t core = static_cast<uint32_t>(AscendC::GetBlockIdx());
    const uint32_t at = kCoresAt + core * kCoreWords;
    const uint64_t share = words_.GetValue(at + kCoreFirst);
    const uint64_t rest = words_.GetValue(at + kCoreRest);
    const uint32_t items = FieldOf(rest, 0) + FieldOf(rest, 1);
    if (kForm == Form::kWhole && items == 0) return;
    // The loads begin at once; the other flags are raised meanwhile.
    for (uint32_t i = 0; i < 6; ++i) AscendC::SetFlag<HardEvent::MTE1_MTE2>(i);
    loader_.Begin({x, program, identity}, share, rest);
    loader_.Run();
    for (uint32_t i = 0; i < kProductFlags; ++i) AscendC::SetFlag<HardEvent::M_MTE1>(i);
    for (uint32_t i = 0; i < kSumFlags; ++i) AscendC::SetFlag<HardEvent::FIX_M>(i);
    item_.next = static_cast<uint32_t>(share);
    if (kForm == Form::kWhole) {
      RunWhole(items);
    } else {
      RunSplit(share, items);
    }
    TakeFree();
  }

 private:
  static constexpr uint32_t kProductFlags = kForm == Form::kSplit ? 5 : 4;
  static constexpr uint32_t kSumFlags = kForm == Form::kSplit ? 4 : 2;

  __aicore__ inline void RunWhole(uint32_t items) {
    for (uint32_t i = 0; i < items; ++i) {
      item_.Read(words_, item_.next);
      shrink_.Run(item_, 0, item_.inner, 0);
      AscendC::SetFlag<HardEvent::M_FIX>(kSliceFlag);
      AscendC::WaitFlag<HardEvent::M_FIX>(kSliceFlag);
      RoundS<T>(item_, 0, kSAt);
      AscendC::WaitFlag<HardEvent::M_MTE1>(0);
      AscendC::WaitFlag<HardEvent::M_MTE1>(1);
      ExpandWhole();
      AscendC::SetFlag<HardEvent::M_MTE1>(0);
      AscendC::SetFlag<HardEvent::M_MTE1>(1);
    }
  }

  // S lies in L1.
  __aicore__ inline void ExpandWhole() {
    expand_.PassYThrough(kHalfL0, 0);
    expand_.Begin(item_, 0);
    expand_.ForgetIdentity();
    AscendC::WaitFlag<HardEvent::FIX_MTE1>(0);
    for (uint32_t m = 0; m < item_.members; ++m) expand_.LoadS(item_, m, kSAt);
    Staged& staged = staged_[0];
    staged.item = item_;
    for (uint32_t m = 0; m < item_.members; ++m) {
      for (staged.chunk.Begin(words_, item_, m); !staged.chunk.Done(); staged.chunk.Next()) {
        loader_.Run();
        expand_.StageB(&staged);
        expand_.StageY(staged);
        expand_.Finish(staged);
      }
    }
  }

  __aicore__ inline void RunSplit(uint64_t share, uint32_t items) {
    for (uint32_t round = 0; round < kRounds; ++round) {
      const uint32_t shrinks = FieldOf(share, 2 + round);
      for (uint32_t i = 0; i < shrinks; ++i) ShrinkSlice();
      // This core's sums of the round are on their way to memory.
      AscendC::CrossCoreSetFlag<0, PIPE_FIX>(static_cast<uint16_t>(kAllSlices + round));
      loader_.Sent();
    }
    // L0A is the expands' from here on: y and slices where the last block of x is not, S where it
    // is. The slices wait for all of x.
    x_half_ = shrink_.XHalf();
    expand_.PassYThrough((x_half_ ^ 1) * kHalfL0, x_half_ ^ 1);
    sum_at_ = item_.next;
    for (uint32_t i = 0; i < items; ++i) {
      item_.Read(words_, item_.next);
      ExpandSplit();
    }
    loader_.End();
  }

  // One slice of k: into a place of L0C and, in fp32, to memory.
  __aicore__ inline void ShrinkSlice() {
    item_.Read(words_, item_.next);
    const uint32_t turn = slice_turn_++ & 1;
    const uint32_t sum = turn * kYL0CBytes;
    AscendC::WaitFlag<HardEvent::FIX_M>(kSliceFlag + turn);
    shrink_.Run(item_, item_.column_begin, item_.column_end, sum);
    AscendC::SetFlag<HardEvent::M_FIX>(kSliceFlag + turn);
    AscendC::WaitFlag<HardEvent::M_FIX>(kSliceFlag + turn);
    AscendC::GlobalTensor<float> sums;
    sums.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(item_.Sums(words_)));
    AscendC::FixpipeParamsV220 params;
    params.nSize = kFractal;
    params.mSize = static_cast<uint16_t>(item_.rows);
    params.srcStride = static_cast<uint16_t>(item_.padded);
    params.dstStride = item_.pitch;
    params.ndNum = static_cast<uint16_t>(item_.tiles);
    params.srcNdStride = static_cast<uint16_t>(item_.row_blocks);
    params.dstNdStride = static_cast<uint16_t>(item_.rows * item_.pitch);
    params.quantPre = QuantMode_t::NoQuant;
    AscendC::Fixpipe<float, float, AscendC::CFG_ROW_MAJOR>(
        sums, At<float>(TPosition::CO1, sum, item_.padded * item_.tiles * kFractal), params);
    AscendC::SetFlag<HardEvent::FIX_M>(kSliceFlag + turn);
  }

  // Chunks of an item to L0, and those to their end whose S is there; the plan says in which order.
  __aicore__ inline void ExpandSplit() {
    const uint32_t steps_at = item_.tiles_at + item_.tiles * kTileWords;
    uint32_t number = 0;
    uint64_t steps = 0;
    for (chunks_.Begin(words_, item_, 0); !chunks_.Done(); chunks_.Next()) {
      loader_.Run();
      if (number % kStepsOfWord == 0) steps = words_.GetValue(steps_at + number / kStepsOfWord);
      ++number;
      const uint32_t step = static_cast<uint32_t>(steps) & kStepMask;
      steps >>= kStepBits;
      Staged& staged = staged_[begun_++ % kPlaces];
      staged.item = item_;
      staged.chunk = chunks_;
      if ((step & kStepSumFirst) != 0) Sum();
      expand_.StageB(&staged);
      FinishSome(step & kStepCount);
      if ((step & kStepSum) != 0) Sum();
      expand_.StageY(staged);
      FinishSome((step >> kStepAfter) & kStepCount);
    }
  }

  __aicore__ inline uint32_t PlaceOfS(uint32_t batch) const {
    return x_half_ * kHalfL0 + (batch & 1) * kSplitS;
  }
  // S of the next batch, to its place in L1.
  __aicore__ inline void Sum() {
    Item item;
    item.Read(words_, sum_at_);
    Chunks chunks;
    chunks.Begin(words_, item, 0);
    uint32_t tiles = item.tiles;
    item.tiles = chunks.batch;
    sums_.Run(item, kSAt + (summed_++ & 1) * kSplitS, (x_half_ ^ 1) * kHalfL0 + kSumsL0A, x_half_);
    sum_at_ = item.next;
    while (tiles < chunks.batch) {
      item.Read(words_, sum_at_);
      tiles += item.tiles;
      sum_at_ = item.next;
    }
  }
  __aicore__ inline void FinishSome(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) FinishNext();
  }
  __aicore__ inline void FinishNext() {
    const Staged& staged = staged_[finished_++ % kPlaces];
    const Chunks& chunk = staged.chunk;
    if (chunk.First()) {
      if (chunk.batch != 0) {
        if (summed_ == s_loaded_) Sum();
        turn_ = s_loaded_++ & 1;
        AscendC::WaitFlag<HardEvent::FIX_MTE1>(0);
      }
      const uint32_t s = PlaceOfS(turn_) + chunk.s_at * kFractalBytes;
      expand_.Begin(staged.item, s);
      expand_.LoadS(staged.item, 0, kSAt + turn_ * kSplitS + chunk.s_at * kFractalBytes);
      AscendC::SetFlag<HardEvent::MTE1_M>(kSFlag);
      AscendC::WaitFlag<HardEvent::MTE1_M>(kSFlag);
    }
    expand_.Finish(staged);
  }

  __aicore__ inline void TakeFree() {
    for (uint32_t i = 0; i < 6; ++i) AscendC::WaitFlag<HardEvent::MTE1_MTE2>(i);
    for (uint32_t i = 0; i < kProductFlags; ++i) {
      AscendC::WaitFlag<HardEvent::M_MTE1>(i);
    }
    for (uint32_t i = 0; i < kSumFlags; ++i) AscendC::WaitFlag<HardEvent::FIX_M>(i);
  }

  AscendC::GlobalTensor<uint64_t> words_;
  Loader<T, Y, kResidual == Residual::kFused, kForm> loader_;
  uint32_t weight_turn_ = 0;
  Shrink<T, Loader<T, Y, kResidual == Residual::kFused, kForm>> shrink_;
  Expand<T, Y, kResidual, kForm> expand_;
  SliceSums<T, Loader<T, Y, kResidual == Residual::kFused, kForm>> sums_;
  Item item_;
  Chunks chunks_;
  // Chunks that are under way, in turns; how many were begun and finished.
  static constexpr uint32_t kPlaces = Expand<T, Y, kResidual, kForm>::kPlaces;
  Staged staged_[kPlaces];
  uint32_t begun_ = 0;
  uint32_t finished_ = 0;
  // Of split expands, batches of items whose S is made at once: those whose S is made, and is in
  // L0A; the first item of the next one whose S is not made; which place of S the one at
  // hand has.
  uint32_t summed_ = 0;
  uint32_t s_loaded_ = 0;
  uint32_t sum_at_ = 0;
  uint32_t turn_ = 0;
  uint32_t slice_turn_ = 0;
  uint32_t x_half_ = 0;  // of L0A, which the last block of x went to
};

}  // namespace ascend
}  // namespace lorica
