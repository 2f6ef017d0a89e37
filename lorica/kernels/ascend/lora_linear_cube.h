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
// Only the basic API, static tensors and flags by hand.
//
// Flags, by pipe pair and id. "Free" flags are raised once at the start and taken back at the end.
//   MTE2_MTE1 / MTE1_MTE2  0-3 weight slots of L1, 4-5 x blocks (split: also slices) of L1: full /
//   free MTE1_M                 0-1 x in a half of L0A (where it comes after the tiles that it
//   meets),
//                          2-3 a half of L0B and what came before it: complete
//   M_MTE1                 0-1 halves of L0A free (in split expands: the places of S there), 2-3
//   halves
//                          of L0B free
//   M_FIX / FIX_M          0-1 tiles of y in L0C, 2 S in L0C: complete / free (a whole item's S
//   needs
//                          no "free"; split: 2-3 a slice's sum in a half of L0C)
//   FIX_MTE1               0 S in L1 is full
//   across cores           0-1 the slices of all cores of a round are in memory
#pragma once

#include "kernel_operator.h"
#include "lorica/kernels/ascend/lora_linear_loader.h"

namespace lorica {
namespace ascend {

template <typename T>
struct CastMode;
template <>
struct CastMode<half> {
  static constexpr QuantMode_t value = QuantMode_t::F322F16;
};
template <>
struct CastMode<bfloat16_t> {
  static constexpr QuantMode_t value = QuantMode_t::F322BF16;
};
template <>
struct CastMode<float> {
  static constexpr QuantMode_t value = QuantMode_t::NoQuant;
};

// How the sum reaches y.
enum class Residual { kFused, kAtomic };

template <typename T, typename Y, Residual kResidual, Form kForm>
class LoraLinear {
 public:
  __aicore__ inline void Run(GM_ADDR x, GM_ADDR program, GM_ADDR identity) {
    words_.SetGlobalBuffer(reinterpret_cast<__gm__ uint64_t*>(program));
    const uint32_t core = static_cast<uint32_t>(AscendC::GetBlockIdx());
    const uint32_t at = kCoresAt + core * kCoreWords;
    const uint64_t share = words_.GetValue(at + kCoreFirst);
    const uint64_t rest = words_.GetValue(at + kCoreRest);
    const uint32_t items = FieldOf(rest, 0) + FieldOf(rest, 1);
    if (kForm == Form::kWhole && items == 0) return;
    RaiseFree();
    if (kFused) LoadIdentity(identity);
    item_.next = static_cast<uint32_t>(share);
    if (kForm == Form::kWhole) {
      RunWhole(x, program, share, rest, items);
    } else {
      RunSplit(x, program, share, rest, items);
    }
    TakeFree(items);
  }

 private:
  static constexpr bool kFused = kResidual == Residual::kFused;

  template <typename E>
  __aicore__ static inline AscendC::LocalTensor<E> At(TPosition where, uint32_t byte,
                                                      uint32_t elements) {
    return AscendC::LocalTensor<E>(where, byte, elements);
  }
  __aicore__ static inline uint32_t Least(uint32_t a, uint32_t b) { return a < b ? a : b; }

  __aicore__ inline void RunWhole(GM_ADDR x, GM_ADDR program, uint64_t share, uint64_t rest,
                                  uint32_t items) {
    loader_.Begin(x, program, share, rest);
    loader_.Run();
    for (uint32_t i = 0; i < items; ++i) {
      item_.Read(words_, item_.next);
      y_.SetGlobalBuffer(reinterpret_cast<__gm__ Y*>(item_.Y(words_)));
      Shrink(0, item_.inner, 0);
      AscendC::SetFlag<HardEvent::M_FIX>(kSliceFlag);
      AscendC::WaitFlag<HardEvent::M_FIX>(kSliceFlag);
      RoundS(item_, 0, kSAt);
      AscendC::WaitFlag<HardEvent::FIX_MTE1>(0);
      AscendC::WaitFlag<HardEvent::M_MTE1>(0);
      AscendC::WaitFlag<HardEvent::M_MTE1>(1);
      Expand(0, false);
      AscendC::SetFlag<HardEvent::M_MTE1>(0);
      AscendC::SetFlag<HardEvent::M_MTE1>(1);
    }
  }

  __aicore__ inline void RunSplit(GM_ADDR x, GM_ADDR program, uint64_t share, uint64_t rest,
                                  uint32_t items) {
    loader_.Begin(x, program, share, rest);
    loader_.Run();
    for (uint32_t round = 0; round < kRounds; ++round) {
      const uint32_t shrinks = FieldOf(share, 2 + round);
      for (uint32_t i = 0; i < shrinks; ++i) ShrinkSlice();
      // This core's sums of the round are on their way to memory.
      AscendC::CrossCoreSetFlag<0, PIPE_FIX>(static_cast<uint16_t>(kAllSlices + round));
    }
    loader_.Meet();
    // L0A is the expands' from here on.
    for (uint32_t i = 0; i < 2; ++i) AscendC::WaitFlag<HardEvent::M_MTE1>(i);
    next_.next = item_.next;
    if (items > 0) Sum(0);
    for (uint32_t i = 0; i < items; ++i) {
      const uint32_t turn = i & 1;
      item_ = next_;
      y_.SetGlobalBuffer(reinterpret_cast<__gm__ Y*>(item_.Y(words_)));
      loader_.AllowSums();
      AscendC::WaitFlag<HardEvent::FIX_MTE1>(0);
      if (i >= 2) AscendC::WaitFlag<HardEvent::M_MTE1>(turn);
      Expand(turn, i + 1 < items);
      AscendC::SetFlag<HardEvent::M_MTE1>(turn);
    }
    loader_.End();
  }

  __aicore__ inline void RaiseFree() {
    for (uint32_t i = 0; i < 6; ++i) AscendC::SetFlag<HardEvent::MTE1_MTE2>(i);
    for (uint32_t i = 0; i < 4; ++i) AscendC::SetFlag<HardEvent::M_MTE1>(i);
    const uint32_t sums = kForm == Form::kSplit ? 4 : 2;
    for (uint32_t i = 0; i < sums; ++i) AscendC::SetFlag<HardEvent::FIX_M>(i);
  }
  __aicore__ inline void TakeFree(uint32_t items) {
    for (uint32_t i = 0; i < 6; ++i) AscendC::WaitFlag<HardEvent::MTE1_MTE2>(i);
    for (uint32_t i = 0; i < 4; ++i) {
      // Split expands give back what they took.
      if (kForm == Form::kSplit && i < 2 && items <= i) continue;
      AscendC::WaitFlag<HardEvent::M_MTE1>(i);
    }
    const uint32_t sums = kForm == Form::kSplit ? 4 : 2;
    for (uint32_t i = 0; i < sums; ++i) AscendC::WaitFlag<HardEvent::FIX_M>(i);
  }

  __aicore__ inline void LoadIdentity(GM_ADDR identity) {
    AscendC::GlobalTensor<T> source;
    source.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(identity));
    constexpr uint32_t elements = kIdentityFractals * kFractalElements;
    AscendC::DataCopy(At<T>(TPosition::B1, kIdentityAt, elements), source, elements);
    // The flag of slot 0 of L1 is not in use yet.
    AscendC::SetFlag<HardEvent::MTE2_MTE1>(0);
    AscendC::WaitFlag<HardEvent::MTE2_MTE1>(0);
  }

  // Rows x all tiles of x * A^T, over inputs [begin, end), at byte `to` of L0C.
  __aicore__ inline void Shrink(uint32_t begin, uint32_t end, uint32_t to) {
    sum_at_ = to;
    first_ = true;
    // A block of x that fits half of L0A stays there for all groups, and leaves L1 at once.
    const bool stays = item_.steps * kStep >= kBlock;
    for (uint32_t k = begin; k < end; k += kBlock) {
      first_ = k == begin;
      const uint32_t fractals = Least(kBlock, end - k) / kFractal;
      loader_.Run();
      const uint32_t x_slot = loader_.XSlot();
      AscendC::WaitFlag<HardEvent::MTE2_MTE1>(kSlots + x_slot);
      if (stays) {
        LoadX(x_slot * kXBytes, 0, fractals);
        AscendC::SetFlag<HardEvent::MTE1_MTE2>(kSlots + x_slot);
        loader_.UseX();
      }
      for (uint32_t g = 0; g < item_.groups; ++g) {
        loader_.Run();
        ShrinkGroup(stays, x_slot * kXBytes, fractals);
        item_.NextGroup();
      }
      if (stays) {
        AscendC::SetFlag<HardEvent::M_MTE1>(x_half_);
      } else {
        AscendC::SetFlag<HardEvent::MTE1_MTE2>(kSlots + x_slot);
        loader_.UseX();
      }
    }
  }

  // One slice of k: into a place of L0C and, in fp32, to memory.
  __aicore__ inline void ShrinkSlice() {
    item_.Read(words_, item_.next);
    const uint32_t turn = slice_turn_++ & 1;
    AscendC::WaitFlag<HardEvent::FIX_M>(kSliceFlag + turn);
    Shrink(item_.column_begin, item_.column_end, turn * kYL0CBytes);
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

  // S of the next expand: the slices' sums, in order, times the scale; to its place in L1.
  __aicore__ inline void Sum(uint32_t turn) {
    next_.Read(words_, next_.next);
    const uint32_t y_turn = y_turn_++ & 1;
    AscendC::WaitFlag<HardEvent::FIX_M>(y_turn);
    for (uint32_t t = 0; t < next_.tiles; ++t) {
      loader_.Run();
      const uint32_t x_slot = loader_.XSlot();
      AscendC::WaitFlag<HardEvent::MTE2_MTE1>(kSlots + x_slot);
      for (uint32_t row = 0; row < next_.row_blocks; row += kSumRowBlocks) {
        SumRows(t, row, Least(kSumRowBlocks, next_.row_blocks - row), x_slot * kXBytes,
                kYL0C + y_turn * kYL0CBytes);
      }
      AscendC::SetFlag<HardEvent::MTE1_MTE2>(kSlots + x_slot);
      loader_.UseX();
    }
    AscendC::SetFlag<HardEvent::M_FIX>(y_turn);
    AscendC::WaitFlag<HardEvent::M_FIX>(y_turn);
    RoundS(next_, kYL0C + y_turn * kYL0CBytes, kSAt + turn * kSplitS);
    AscendC::SetFlag<HardEvent::FIX_M>(y_turn);
  }

  // Of one tile, a few blocks of 16 rows: a slice after another, so that its sum is added as it was
  // written, times the scale.
  __aicore__ inline void SumRows(uint32_t tile, uint32_t row, uint32_t blocks, uint32_t from,
                                 uint32_t to) {
    const uint32_t fractals = next_.slices * kWideFractals;
    const uint32_t half = weight_turn_++ & 1;
    const uint32_t l0a = kHalfL0 + half * kSlotY;
    AscendC::WaitFlag<HardEvent::M_MTE1>(2 + half);
    Load<float>(TPosition::B2, half * kHalfL0, from + kScaleAt, kWideFractals, 1, 0);
    for (uint32_t block = 0; block < blocks; ++block) {
      Load<float>(TPosition::A2, l0a + block * fractals * kFractalBytes,
                  from + (row + block) * kFractalBytes, fractals, next_.row_blocks, 0);
    }
    AscendC::SetFlag<HardEvent::MTE1_M>(2 + half);
    AscendC::WaitFlag<HardEvent::MTE1_M>(2 + half);
    AscendC::MmadParams params;
    params.m = kFractal;
    params.n = kFractal;
    params.k = kFractal;
    for (uint32_t block = 0; block < blocks; ++block) {
      for (uint32_t slice = 0; slice < next_.slices; ++slice) {
        const bool first = slice == 0;
        if (!first) AscendC::PipeBarrier<PIPE_M>();
        params.cmatrixInitVal = first;
        AscendC::Mmad(
            At<float>(TPosition::CO1, to + (tile * next_.row_blocks + row + block) * kSumBytes,
                      kFractalElements),
            At<float>(TPosition::A2,
                      l0a + (block * fractals + slice * kWideFractals) * kFractalBytes,
                      kFractalElements),
            At<float>(TPosition::B2, half * kHalfL0, kFractalElements), params);
      }
    }
    AscendC::SetFlag<HardEvent::M_MTE1>(2 + half);
  }

  // The A tiles of one group, at one block of k.
  __aicore__ inline void ShrinkGroup(bool stays, uint32_t x_at, uint32_t fractals) {
    const uint32_t tiles = item_.GroupTiles();
    const uint32_t half = weight_turn_++ & 1;
    const uint32_t slot = loader_.Slot();
    AscendC::WaitFlag<HardEvent::MTE2_MTE1>(slot);
    AscendC::WaitFlag<HardEvent::M_MTE1>(2 + half);
    for (uint32_t t = 0; t < tiles; ++t) {
      Load(TPosition::B2, half * kHalfL0 + t * kFractalBytes,
           kSlotAt + slot * kSlotBytes + t * fractals * kFractalBytes, fractals, 1, tiles - 1);
    }
    AscendC::SetFlag<HardEvent::MTE1_MTE2>(slot);
    loader_.Use();
    AscendC::SetFlag<HardEvent::MTE1_M>(2 + half);
    AscendC::WaitFlag<HardEvent::MTE1_M>(2 + half);
    if (stays) {
      MultiplySteps(half, 0, fractals);
    } else {
      const uint32_t part = item_.steps * (kStep / kFractal);
      for (uint32_t begin = 0; begin < fractals; begin += part) {
        const uint32_t end = Least(fractals, begin + part);
        LoadX(x_at, begin, end);
        AscendC::SetFlag<HardEvent::MTE1_M>(x_half_);
        AscendC::WaitFlag<HardEvent::MTE1_M>(x_half_);
        MultiplySteps(half, begin, end);
        AscendC::SetFlag<HardEvent::M_MTE1>(x_half_);
      }
    }
    AscendC::SetFlag<HardEvent::M_MTE1>(2 + half);
  }

  // k-steps [begin, end) of x, in fractals, from L1 into the other half of L0A: there, a block of
  // 16 rows after another.
  __aicore__ inline void LoadX(uint32_t x_at, uint32_t begin, uint32_t end) {
    x_half_ ^= 1;
    const uint32_t half = x_half_;
    AscendC::WaitFlag<HardEvent::M_MTE1>(half);
    const uint32_t blocks = item_.row_blocks;
    if (blocks == 1) {
      Load(TPosition::A2, half * kHalfL0, x_at + begin * kFractalBytes, end - begin, 1, 0);
    } else {
      for (uint32_t at = begin; at < end; at += kStep / kFractal) {
        const uint32_t step = Least(kStep / kFractal, end - at);
        for (uint32_t block = 0; block < blocks; ++block) {
          Load(TPosition::A2,
               half * kHalfL0 + ((at - begin) * blocks + block * step) * kFractalBytes,
               x_at + (at * blocks + block) * kFractalBytes, step, blocks, 0);
        }
      }
    }
  }

  __aicore__ inline void MultiplySteps(uint32_t half, uint32_t begin, uint32_t end) {
    const uint32_t tiles = item_.GroupTiles();
    for (uint32_t at = begin; at < end; at += kStep / kFractal) {
      const uint32_t inner = Least(kStep / kFractal, end - at) * kFractal;
      const bool first = first_ && at == 0;
      // A product this small would read the sum before the last one has reached it.
      if (!first) AscendC::PipeBarrier<PIPE_M>();
      Multiply(sum_at_ + item_.group * kGroupTiles * item_.row_blocks * kSumBytes,
               x_half_ * kHalfL0 + (at - begin) * item_.padded * 32,
               half * kHalfL0 + at * tiles * kFractalBytes, tiles * kFractal, inner, first);
    }
  }

  // `count` fractals from L1 to L0: `stride` fractals apart there, `gap` between them here.
  template <typename E = T>
  __aicore__ inline void Load(TPosition where, uint32_t to, uint32_t from, uint32_t count,
                              uint32_t stride, uint32_t gap) {
    constexpr uint32_t fractal = kFractalBytes / sizeof(E);
    AscendC::LoadData2DParams load;
    load.startIndex = 0;
    load.repeatTimes = static_cast<uint8_t>(count);
    load.srcStride = static_cast<uint16_t>(stride);
    load.dstGap = static_cast<uint16_t>(gap);
    load.ifTranspose = false;
    const TPosition source = where == TPosition::A2 ? TPosition::A1 : TPosition::B1;
    AscendC::LoadData(At<E>(where, to, ((count - 1) * (gap + 1) + 1) * fractal),
                      At<E>(source, from, ((count - 1) * stride + 1) * fractal), load);
  }

  // L0C[padded rows, columns] (+)= L0A[padded rows, inner] * L0B[inner, columns]; addresses in
  // bytes. Always of padded rows: one row alone would be taken for a vector.
  __aicore__ inline void Multiply(uint32_t to, uint32_t a, uint32_t b, uint32_t columns,
                                  uint32_t inner, bool first) {
    AscendC::MmadParams params;
    params.m = static_cast<uint16_t>(item_.padded);
    params.n = static_cast<uint16_t>(columns);
    params.k = static_cast<uint16_t>(inner);
    params.cmatrixInitVal = first;
    AscendC::Mmad(At<float>(TPosition::CO1, to, item_.padded * columns),
                  At<T>(TPosition::A2, a, item_.padded * inner),
                  At<T>(TPosition::B2, b, inner * columns), params);
  }

  // S of `item` from L0C to L1, rounded to T; the rows that hold tokens only.
  __aicore__ inline void RoundS(const Item& item, uint32_t from, uint32_t to) {
    AscendC::DataCopyCO12DstParams params;
    params.nSize = static_cast<uint16_t>(item.tiles * kFractal);
    params.mSize = static_cast<uint16_t>(item.rows);
    params.dstStride = item.padded;
    params.srcStride = static_cast<uint16_t>(item.padded);
    params.quantPre = CastMode<T>::value;
    params.reluPre = 0;
    params.channelSplit = false;
    params.nz2ndEn = false;
    const uint32_t elements = item.tiles * kFractal * item.padded;
    AscendC::DataCopy(At<T>(TPosition::A1, to, elements), At<float>(TPosition::CO1, from, elements),
                      params);
    // What follows on MTE1, and through it on M, waits for this: S in L0C is free then as well.
    AscendC::SetFlag<HardEvent::FIX_MTE1>(0);
  }

  // S lies in the place `turn` of L1 and L0A; `sums`: those of the next expand are made before the
  // last chunk, so that no pipe waits for them.
  __aicore__ inline void Expand(uint32_t turn, bool sums) {
    s_l0a_ = turn * kSplitS;
    for (uint32_t m = 0; m < item_.members; ++m) LoadS(m, kSAt + turn * kSplitS);
    // The identity is loaded into each half of L0B with the first chunk that comes there.
    uint32_t fresh = 3;
    for (uint32_t m = 0; m < item_.members; ++m) {
      for (chunks_.Begin(words_, item_, m); !chunks_.Done(); chunks_.Next()) {
        loader_.Run();
        if (sums && chunks_.Last()) {
          Sum(turn ^ 1);
          fresh = 3;
        }
        const uint32_t half = weight_turn_ & 1;
        ExpandChunk((fresh >> half & 1) != 0);
        fresh &= ~(1u << half);
      }
    }
  }

  // The member's S as the left operand: a block of 16 rows after another.
  __aicore__ inline void LoadS(uint32_t m, uint32_t from) {
    const uint32_t member = item_.members_at + m * kMemberWords;
    const uint64_t span = words_.GetValue(member + kMemberSpan);
    const uint32_t tile = FieldOf(span, 2);
    const uint32_t tiles = FieldOf(span, 3);
    const uint32_t blocks = item_.row_blocks;
    for (uint32_t block = 0; block < blocks; ++block) {
      Load(TPosition::A2, s_l0a_ + (tile * blocks + block * tiles) * kFractalBytes,
           from + (tile * blocks + block) * kFractalBytes, tiles, blocks, 0);
    }
  }

  // y[the member's rows, the chunk's columns)
  __aicore__ inline void ExpandChunk(bool load_identity) {
    const uint32_t fractals = chunks_.columns / kFractal;
    const uint32_t slot = loader_.Slot();
    const uint32_t weights_at = kSlotAt + slot * kSlotBytes;
    const uint32_t half = weight_turn_++ & 1;
    const uint32_t identity = half * kHalfL0 + kIdentityL0;
    const uint32_t y_l0a = kHalfL0 + half * kSlotY;
    AscendC::WaitFlag<HardEvent::MTE2_MTE1>(slot);
    AscendC::WaitFlag<HardEvent::M_MTE1>(2 + half);
    if (kFused) {
      if (load_identity) Load(TPosition::B2, identity, kIdentityAt, kIdentityFractals, 1, 0);
      Load(TPosition::A2, y_l0a, weights_at + kSlotWeights, item_.row_blocks * fractals, 1, 0);
    }
    Load(TPosition::B2, half * kHalfL0, weights_at, chunks_.tiles * fractals, 1, 0);
    AscendC::SetFlag<HardEvent::MTE1_MTE2>(slot);
    loader_.Use();
    AscendC::SetFlag<HardEvent::MTE1_M>(2 + half);

    const uint32_t y_turn = y_turn_++ & 1;
    const uint32_t y_l0c = kYL0C + y_turn * kYL0CBytes;
    AscendC::WaitFlag<HardEvent::MTE1_M>(2 + half);
    AscendC::WaitFlag<HardEvent::FIX_M>(y_turn);
    if (kFused) {
      MultiplyIdentity(y_l0c, y_l0a, identity, fractals);
      AscendC::PipeBarrier<PIPE_M>();
    }
    Multiply(y_l0c, s_l0a_ + chunks_.tile * item_.row_blocks * kFractalBytes, half * kHalfL0,
             chunks_.columns, chunks_.tiles * kFractal, !kFused);
    AscendC::SetFlag<HardEvent::M_MTE1>(2 + half);
    AscendC::SetFlag<HardEvent::M_FIX>(y_turn);

    AscendC::WaitFlag<HardEvent::M_FIX>(y_turn);
    WriteY(y_l0c);
    AscendC::SetFlag<HardEvent::FIX_M>(y_turn);
  }

  // L0C tile of y = y * I, so that a row that is not finite stays in its row. The tile's fractals
  // lie in L0A and in L0C in one order, so they are taken for one tall matrix of 16 columns: one
  // product and one fractal of identity, whatever the tile's shape.
  __aicore__ inline void MultiplyIdentity(uint32_t to, uint32_t y, uint32_t identity,
                                          uint32_t fractals) {
    const uint32_t rows = item_.padded * fractals;
    AscendC::MmadParams params;
    params.m = static_cast<uint16_t>(rows);
    params.n = kFractal;
    params.k = kFractal;
    params.cmatrixInitVal = true;
    AscendC::Mmad(At<float>(TPosition::CO1, to, rows * kFractal),
                  At<T>(TPosition::A2, y, rows * kFractal),
                  At<T>(TPosition::B2, identity, kFractalElements), params);
  }

  __aicore__ inline void WriteY(uint32_t from) {
    if (!kFused) AscendC::SetAtomicAdd<Y>();
    for (uint32_t r = chunks_.run_begin; r < chunks_.run_end; ++r) {
      const uint64_t run = words_.GetValue(item_.runs_at + r * kRunWords);
      const uint32_t place = FieldOf(run, 2);
      AscendC::FixpipeParamsV220 params;
      params.nSize = static_cast<uint16_t>(chunks_.columns);
      params.mSize = static_cast<uint16_t>(FieldOf(run, 3));
      params.srcStride = static_cast<uint16_t>(item_.padded);
      params.dstStride = item_.pitch;
      params.quantPre = CastMode<Y>::value;
      AscendC::Fixpipe<Y, float, AscendC::CFG_ROW_MAJOR>(
          y_[static_cast<uint64_t>(static_cast<uint32_t>(run)) * item_.pitch + chunks_.column],
          At<float>(TPosition::CO1, from + place * 64,
                    item_.padded * chunks_.columns - place * kFractal),
          params);
    }
    if (!kFused) AscendC::SetAtomicNone();
  }

  AscendC::GlobalTensor<uint64_t> words_;
  AscendC::GlobalTensor<Y> y_;
  Loader<T, Y, kFused, kForm> loader_;
  Item item_;
  Item next_;  // of split items: the expand whose sums come next
  Chunks chunks_;
  // Whose turn it is in each pair; they run on from item to item.
  uint32_t x_half_ = 0;
  uint32_t weight_turn_ = 0;
  uint32_t y_turn_ = 0;
  uint32_t slice_turn_ = 0;
  uint32_t s_l0a_ = 0;
  // Of the shrink at hand: where it sums in L0C, and whether it is at its first block of k.
  uint32_t sum_at_ = 0;
  bool first_ = false;
};

}  // namespace ascend
}  // namespace lorica
