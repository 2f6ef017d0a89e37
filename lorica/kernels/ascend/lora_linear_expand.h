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
  params.mSize = static_cast<uint16_t>(item.padded);
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

// A chunk from its way to L0 on.
struct Staged {
  Item item;
  Chunks chunk;
  uint32_t place = 0;  // of L0B, and which tile of y in L0C
};

// How the sum reaches y.
enum class Residual { kFused, kAtomic };

template <typename T, typename Y, Residual kResidual, Form kForm>
class Expand {
 public:
  static constexpr bool kFused = kResidual == Residual::kFused;
  static constexpr uint32_t kPlaces = kForm == Form::kSplit ? 3 : 2;
  using ItsLoader = Loader<T, Y, kFused, kForm>;

  __aicore__ inline Expand(AscendC::GlobalTensor<uint64_t>& words, ItsLoader& loader,
                           uint32_t& weight_turn)
      : words_(words), loader_(loader), weight_turn_(weight_turn) {}

  // All y pass through L0A at `y`; of split items, in the half `half`.
  __aicore__ inline void PassYThrough(uint32_t y, uint32_t half) {
    l0a_of_y_ = y;
    y_flag_ = half;
  }
  // Finishes chunks of `item` from here on; its S lies at `s` of L0A.
  __aicore__ inline void Begin(const Item& item, uint32_t s) {
    y_.SetGlobalBuffer(reinterpret_cast<__gm__ Y*>(item.Y(words_)));
    l0a_of_item_ = s;
  }
  // A shrink has used L0B meanwhile.
  __aicore__ inline void ForgetIdentity() { fresh_ = 7; }

  // The member's S as the left operand: a block of 16 rows after another.
  __aicore__ inline void LoadS(const Item& item, uint32_t m, uint32_t from) {
    const uint32_t member = item.members_at + m * kMemberWords;
    const uint64_t span = words_.GetValue(member + kMemberSpan);
    const uint32_t tile = FieldOf(span, 2);
    const uint32_t tiles = FieldOf(span, 3);
    const uint32_t blocks = item.row_blocks;
    for (uint32_t block = 0; block < blocks; ++block) {
      Fractals load;
      load.to = l0a_of_item_ + (tile * blocks + block * tiles) * kFractalBytes;
      load.from = from + (tile * blocks + block) * kFractalBytes;
      load.count = tiles;
      load.stride = blocks;
      Load<T>(TPosition::A2, load);
    }
  }

  // B of a chunk to L0.
  __aicore__ inline void StageB(Staged* staged) {
    staged->place = NextPlace();
    const Chunks& chunk = staged->chunk;
    const uint32_t slot = loader_.Slot();
    AscendC::WaitFlag<HardEvent::MTE2_MTE1>(slot);
    AscendC::WaitFlag<HardEvent::M_MTE1>(2 + staged->place);
    Load<T>(TPosition::B2, PlaceOfB(staged->place), kSlotAt + slot * kSlotBytes,
            chunk.tiles * (chunk.columns / kFractal));
  }

  // Its y to L0, and y * I, which needs no S, to L0C.
  __aicore__ inline void StageY(const Staged& staged) {
    const uint32_t place = staged.place;
    const uint32_t slot = loader_.Slot();
    if (kFused) {
      if ((fresh_ >> place & 1) != 0) {
        Load<T>(TPosition::B2, PlaceOfIdentity(place), kIdentityAt, kIdentityFractals);
        fresh_ &= ~(1u << place);
      }
      if (kForm == Form::kSplit) AscendC::WaitFlag<HardEvent::M_MTE1>(y_flag_);
      Load<T>(TPosition::A2, PlaceOfY(place), kSlotAt + slot * kSlotBytes + kSlotWeights,
              staged.item.row_blocks * (staged.chunk.columns / kFractal));
    }
    AscendC::SetFlag<HardEvent::MTE1_MTE2>(slot);
    loader_.Use();
    AscendC::SetFlag<HardEvent::MTE1_M>(2 + place);
    AscendC::WaitFlag<HardEvent::MTE1_M>(2 + place);
    AscendC::WaitFlag<HardEvent::FIX_M>(staged.place);
    if (kFused) {
      MultiplyIdentity(staged);
      if (kForm == Form::kSplit) AscendC::SetFlag<HardEvent::M_MTE1>(y_flag_);
    }
  }

  // y[the member's rows, the chunk's columns)
  __aicore__ inline void Finish(const Staged& staged) {
    const Item& item = staged.item;
    const Chunks& chunk = staged.chunk;
    const uint32_t y_l0c = TileOfY(staged.place);
    if (kFused) AscendC::PipeBarrier<PIPE_M>();
    Product product;
    product.to = y_l0c;
    product.a = l0a_of_item_ + chunk.tile * item.row_blocks * kFractalBytes;
    product.b = PlaceOfB(staged.place);
    product.rows = item.padded;
    product.columns = chunk.columns;
    product.inner = chunk.tiles * kFractal;
    product.first = !kFused;
    Multiply<T>(product);
    AscendC::SetFlag<HardEvent::M_MTE1>(2 + staged.place);
    AscendC::SetFlag<HardEvent::M_FIX>(staged.place);
    AscendC::WaitFlag<HardEvent::M_FIX>(staged.place);
    WriteY(item, chunk, y_l0c);
    AscendC::SetFlag<HardEvent::FIX_M>(staged.place);
  }

 private:
  // Split: the half of L0B first that the shrink has not used last, and the place across both when
  // both are known to be free of its weights.
  __aicore__ inline uint32_t NextPlace() {
    if (kForm == Form::kWhole) return weight_turn_++ & 1;
    const uint32_t turn = place_turn_++ % kPlaces;
    return turn < 2 ? turn ^ (weight_turn_ & 1) : turn;
  }
  __aicore__ inline uint32_t PlaceOfB(uint32_t place) const {
    if (kForm == Form::kWhole) return place * kHalfL0;
    return place * 2 % kPlaces * kPlaceL0;
  }
  __aicore__ inline uint32_t PlaceOfY(uint32_t place) const {
    return kForm == Form::kWhole ? l0a_of_y_ + place * kSlotY : l0a_of_y_;
  }
  __aicore__ inline uint32_t PlaceOfIdentity(uint32_t place) const {
    return PlaceOfB(place) + (kForm == Form::kWhole ? kIdentityL0 : kPlaceIdentityL0);
  }
  // The third begins where L0C does.
  __aicore__ inline uint32_t TileOfY(uint32_t tile) const {
    return (kYL0C + tile * kYL0CBytes) % kL0CBytes;
  }

  // L0C tile of y = y * I, so that a row that is not finite stays in its row. The tile's fractals
  // lie in L0A and in L0C in one order, so they are taken for one tall matrix of 16 columns: one
  // product and one fractal of identity, whatever the tile's shape.
  __aicore__ inline void MultiplyIdentity(const Staged& staged) {
    Product product;
    product.to = TileOfY(staged.place);
    product.a = PlaceOfY(staged.place);
    product.b = PlaceOfIdentity(staged.place);
    product.rows = staged.item.padded * (staged.chunk.columns / kFractal);
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
  uint32_t place_turn_ = 0;  // of split items
  // Places of L0B that have no identity yet, a bit each.
  uint32_t fresh_ = 7;
  uint32_t l0a_of_item_ = 0;
  uint32_t l0a_of_y_ = 0;
  uint32_t y_flag_ = 0;
};

}  // namespace ascend
}  // namespace lorica
