// Device code of lora_linear_cube.h: the expand on arch 2201, chunk by chunk: y's tile enters L0C
// as y * I, S * B^T is added on it, one Fixpipe rounds the sum once. With Y = float, y is added to
// by an fp32 atomic, which rounds once as well. One core owns each object; C++17, no standard
// library.
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

// S of `item` from L0C to L1, rounded to T; the rows that hold tokens only.
template <typename T>
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

// Where a chunk is: a half of L0, a tile of y in L0C.
struct Place {
  uint32_t half = 0;
  uint32_t tile = 0;
};

// How the sum reaches y.
enum class Residual { kFused, kAtomic };

template <typename T, typename Y, Residual kResidual, Form kForm>
class Expand {
 public:
  static constexpr bool kFused = kResidual == Residual::kFused;
  static constexpr uint32_t kYTiles = kForm == Form::kSplit ? 3 : 2;
  using ItsLoader = Loader<T, Y, kFused, kForm>;

  __aicore__ inline Expand(AscendC::GlobalTensor<uint64_t>& words, ItsLoader& loader,
                           uint32_t& weight_turn)
      : words_(words), loader_(loader), weight_turn_(weight_turn) {}

  // Of the item whose S lies at `s` of L0A, beside all y at `y`.
  __aicore__ inline void Begin(const Item& item, uint32_t s, uint32_t y) {
    y_.SetGlobalBuffer(reinterpret_cast<__gm__ Y*>(item.Y(words_)));
    l0a_of_item_ = s;
    l0a_of_y_ = y;
  }
  // A shrink has used L0B meanwhile.
  __aicore__ inline void ForgetIdentity() { fresh_ = 3; }

  // The member's S as the left operand: a block of 16 rows after another.
  __aicore__ inline void LoadS(const Item& item, uint32_t m, uint32_t from) {
    const uint32_t member = item.members_at + m * kMemberWords;
    const uint64_t span = words_.GetValue(member + kMemberSpan);
    const uint32_t tile = FieldOf(span, 2);
    const uint32_t tiles = FieldOf(span, 3);
    const uint32_t blocks = item.row_blocks;
    for (uint32_t block = 0; block < blocks; ++block) {
      Load<T>(TPosition::A2, l0a_of_item_ + (tile * blocks + block * tiles) * kFractalBytes,
              from + (tile * blocks + block) * kFractalBytes, tiles, blocks, 0);
    }
  }

  // y and B of a chunk to L0.
  __aicore__ inline Place Stage(const Item& item, const Chunks& chunk) {
    const uint32_t half = weight_turn_++ & 1;
    const uint32_t tile = y_tile_;
    y_tile_ = y_tile_ + 1 == kYTiles ? 0 : y_tile_ + 1;
    const uint32_t fractals = chunk.columns / kFractal;
    const uint32_t slot = loader_.Slot();
    const uint32_t weights_at = kSlotAt + slot * kSlotBytes;
    const uint32_t identity = half * kHalfL0 + kIdentityL0;
    const uint32_t y_l0a = l0a_of_y_ + half * kSlotY;
    AscendC::WaitFlag<HardEvent::MTE2_MTE1>(slot);
    AscendC::WaitFlag<HardEvent::M_MTE1>(2 + half);
    if (kFused) {
      if ((fresh_ >> half & 1) != 0) {
        Load<T>(TPosition::B2, identity, kIdentityAt, kIdentityFractals, 1, 0);
        fresh_ &= ~(1u << half);
      }
      Load<T>(TPosition::A2, y_l0a, weights_at + kSlotWeights, item.row_blocks * fractals, 1, 0);
    }
    Load<T>(TPosition::B2, half * kHalfL0, weights_at, chunk.tiles * fractals, 1, 0);
    AscendC::SetFlag<HardEvent::MTE1_MTE2>(slot);
    loader_.Use();
    AscendC::SetFlag<HardEvent::MTE1_M>(2 + half);
    return {half, tile};
  }

  // y * I, which needs no S.
  __aicore__ inline void AddY(const Item& item, const Chunks& chunk, const Place& place) {
    AscendC::WaitFlag<HardEvent::MTE1_M>(2 + place.half);
    AscendC::WaitFlag<HardEvent::FIX_M>(place.tile);
    if (kFused) {
      MultiplyIdentity(item, TileOfY(place.tile), l0a_of_y_ + place.half * kSlotY,
                       place.half * kHalfL0 + kIdentityL0, chunk.columns / kFractal);
    }
  }

  // y[the member's rows, the chunk's columns)
  __aicore__ inline void Finish(const Item& item, const Chunks& chunk, const Place& place) {
    const uint32_t y_l0c = TileOfY(place.tile);
    if (kFused) AscendC::PipeBarrier<PIPE_M>();
    Product product;
    product.to = y_l0c;
    product.a = l0a_of_item_ + chunk.tile * item.row_blocks * kFractalBytes;
    product.b = place.half * kHalfL0;
    product.rows = item.padded;
    product.columns = chunk.columns;
    product.inner = chunk.tiles * kFractal;
    product.first = !kFused;
    Multiply<T>(product);
    AscendC::SetFlag<HardEvent::M_MTE1>(2 + place.half);
    AscendC::SetFlag<HardEvent::M_FIX>(place.tile);
    AscendC::WaitFlag<HardEvent::M_FIX>(place.tile);
    WriteY(item, chunk, y_l0c);
    AscendC::SetFlag<HardEvent::FIX_M>(place.tile);
  }

 private:
  // The third begins where L0C does.
  __aicore__ inline uint32_t TileOfY(uint32_t tile) const {
    return (kYL0C + tile * kYL0CBytes) % kL0CBytes;
  }

  // L0C tile of y = y * I, so that a row that is not finite stays in its row. The tile's fractals
  // lie in L0A and in L0C in one order, so they are taken for one tall matrix of 16 columns: one
  // product and one fractal of identity, whatever the tile's shape.
  __aicore__ inline void MultiplyIdentity(const Item& item, uint32_t to, uint32_t y,
                                          uint32_t identity, uint32_t fractals) {
    Product product;
    product.to = to;
    product.a = y;
    product.b = identity;
    product.rows = item.padded * fractals;
    product.columns = kFractal;
    product.inner = kFractal;
    product.first = true;
    Multiply<T>(product);
  }

  __aicore__ inline void WriteY(const Item& item, const Chunks& chunk, uint32_t from) {
    if (!kFused) AscendC::SetAtomicAdd<Y>();
    for (uint32_t r = chunk.run_begin; r < chunk.run_end; ++r) {
      const uint64_t run = words_.GetValue(item.runs_at + r * kRunWords);
      const uint32_t place = FieldOf(run, 2);
      AscendC::FixpipeParamsV220 params;
      params.nSize = static_cast<uint16_t>(chunk.columns);
      params.mSize = static_cast<uint16_t>(FieldOf(run, 3));
      params.srcStride = static_cast<uint16_t>(item.padded);
      params.dstStride = item.pitch;
      params.quantPre = CastMode<Y>::value;
      AscendC::Fixpipe<Y, float, AscendC::CFG_ROW_MAJOR>(
          y_[static_cast<uint64_t>(static_cast<uint32_t>(run)) * item.pitch + chunk.column],
          At<float>(TPosition::CO1, from + place * 64,
                    item.padded * chunk.columns - place * kFractal),
          params);
    }
    if (!kFused) AscendC::SetAtomicNone();
  }

  AscendC::GlobalTensor<uint64_t>& words_;
  AscendC::GlobalTensor<Y> y_;
  ItsLoader& loader_;
  uint32_t& weight_turn_;
  uint32_t y_tile_ = 0;
  // Halves of L0B that have no identity yet, a bit each.
  uint32_t fresh_ = 3;
  uint32_t l0a_of_item_ = 0;
  uint32_t l0a_of_y_ = 0;
};

}  // namespace ascend
}  // namespace lorica
