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
    TakeFree(items);
  }

 private:
  static constexpr uint32_t kProductFlags = kForm == Form::kSplit ? 6 : 4;
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
    expand_.Begin(item_, 0, kHalfL0);
    expand_.ForgetIdentity();
    AscendC::WaitFlag<HardEvent::FIX_MTE1>(0);
    for (uint32_t m = 0; m < item_.members; ++m) expand_.LoadS(item_, m, kSAt);
    for (uint32_t m = 0; m < item_.members; ++m) {
      for (chunks_.Begin(words_, item_, m); !chunks_.Done(); chunks_.Next()) {
        loader_.Run();
        const Place place = expand_.Stage(item_, chunks_);
        expand_.AddY(item_, chunks_, place);
        expand_.Finish(item_, chunks_, place);
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
    // L0A is the expands' from here on: y where the last block of x is not, S where it is.
    x_half_ = shrink_.XHalf();
    AscendC::WaitFlag<HardEvent::M_MTE1>(x_half_ ^ 1);
    next_.next = item_.next;
    for (uint32_t i = 0; i < items; ++i) {
      if (i == 0) {
        next_.Read(words_, next_.next);
        AscendC::WaitFlag<HardEvent::M_MTE1>(x_half_);
      }
      item_ = next_;
      loader_.AllowSums();
      ExpandSplit(i, i + 1 < items);
      AscendC::SetFlag<HardEvent::M_MTE1>(i & 1);
    }
    loader_.End();
  }

  // One slice of k: into a place of L0C and, in fp32, to memory.
  __aicore__ inline void ShrinkSlice() {
    item_.Read(words_, item_.next);
    const uint32_t turn = slice_turn_++ & 1;
    AscendC::WaitFlag<HardEvent::FIX_M>(kSliceFlag + turn);
    shrink_.Run(item_, item_.column_begin, item_.column_end, turn * kYL0CBytes);
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
        sums, At<float>(TPosition::CO1, turn * kYL0CBytes, item_.padded * item_.tiles * kFractal),
        params);
    AscendC::SetFlag<HardEvent::FIX_M>(kSliceFlag + turn);
  }

  // S of expand `i`, an item: to its place in L1, through its place in L0A.
  __aicore__ inline void Sum(const Item& item, uint32_t i) {
    // The expand before the last has been there.
    if (i >= 2) AscendC::WaitFlag<HardEvent::M_MTE1>(i & 1);
    sums_.Run(item, PlaceOfS(i), i & 1);
  }
  __aicore__ inline uint32_t PlaceOfS(uint32_t i) const {
    return x_half_ * kHalfL0 + (i & 1) * kSplitS;
  }

  // An item whose sums come late makes its S itself, with two chunks made ready meanwhile; else it
  // was made before the last chunk of the item before, so that no pipe waits for it.
  __aicore__ inline void ExpandSplit(uint32_t i, bool more) {
    expand_.Begin(item_, PlaceOfS(i), (x_half_ ^ 1) * kHalfL0);
    chunks_.Begin(words_, item_, 0);
    loader_.Run();
    Place place = expand_.Stage(item_, chunks_);
    expand_.AddY(item_, chunks_, place);
    if (item_.late) Sum(item_, i);
    const Chunks before = chunks_;
    const Place place_before = place;
    const bool two = item_.late && !chunks_.Last();
    if (two) {
      chunks_.Next();
      loader_.Run();
      place = expand_.Stage(item_, chunks_);
    }
    AscendC::WaitFlag<HardEvent::FIX_MTE1>(0);
    expand_.LoadS(item_, 0, kSAt + (i & 1) * kSplitS);
    AscendC::SetFlag<HardEvent::MTE1_M>(kSumFlag);
    AscendC::WaitFlag<HardEvent::MTE1_M>(kSumFlag);
    if (two) {
      expand_.Finish(item_, before, place_before);
      expand_.AddY(item_, chunks_, place);
    }
    while (true) {
      if (more && chunks_.Last()) {
        next_.Read(words_, next_.next);
        if (!next_.late) Sum(next_, i + 1);
      }
      expand_.Finish(item_, chunks_, place);
      chunks_.Next();
      if (chunks_.Done()) return;
      loader_.Run();
      place = expand_.Stage(item_, chunks_);
      expand_.AddY(item_, chunks_, place);
    }
  }

  __aicore__ inline void TakeFree(uint32_t items) {
    for (uint32_t i = 0; i < 6; ++i) AscendC::WaitFlag<HardEvent::MTE1_MTE2>(i);
    for (uint32_t i = 0; i < kProductFlags; ++i) {
      // Split expands give back what they took.
      if (kForm == Form::kSplit && i < 2 && (items == 0 ? i != x_half_ : items <= i)) continue;
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
  Item next_;  // of split items: the expand whose sums come next
  Chunks chunks_;
  uint32_t slice_turn_ = 0;
  uint32_t x_half_ = 0;  // of L0A, which the last block of x went to
};

}  // namespace ascend
}  // namespace lorica
