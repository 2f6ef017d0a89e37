// The fused multi-adapter operator for arch 2201 (Ascend 910B, A3): y[rows] += (x * A^T) * B^T for
// all adapters of a step in one launch, on the cube cores alone.
//
// For each item of the plan (lora_program.h): x streams by blocks of k past the A tiles of all
// adapters of the item; S stays in fp32 in L0C; one copy L0C -> L1 rounds it to T; then, adapter by
// adapter, y's tile enters L0C as y * I, S * B^T is added on it, and one Fixpipe rounds the sum
// once. With Y = float, y is added to by an fp32 atomic, which rounds once as well.
//
// Only the basic API, static tensors and flags by hand. Calls and their public pages (Ascend C API
// reference, "SIMD API, basic"): LocalTensor (static construction), GlobalTensor, DataCopy (plain;
// Nd2NzParams; CO1 to A1 with DataCopyCO12DstParams), LoadData (LoadData2DParams), Mmad, Fixpipe
// (FixpipeParamsV220), SetAtomicAdd, SetAtomicNone, SetFlag, WaitFlag, PipeBarrier, GetBlockIdx.
//
// Flags, by pipe pair and id. "Free" flags are raised once at the start and taken back at the end.
//   MTE2_MTE1 / MTE1_MTE2  0-3 weight slots of L1, 4-5 x blocks of L1: full / free
//   MTE1_M                 0-1 operands in L0 are complete
//   M_MTE1                 0-1 halves of L0A free, 2-3 halves of L0B free
//   M_FIX / FIX_M          0-1 tiles of y in L0C, 2 S in L0C: complete / free
//   FIX_MTE1 / MTE1_FIX    0 S in L1: full / free
#include "kernel_operator.h"
#include "lorica/kernels/ascend/lora_program.h"

namespace lorica {
namespace ascend {

using AscendC::HardEvent;
using AscendC::TPosition;

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

// L1, in bytes.
constexpr uint32_t kXBytes = kMaxRows * kBlock * 2;
constexpr uint32_t kSlotWeights = kGroupTiles * kFractal * kBlock * 2;
constexpr uint32_t kSlotY = 16384;
constexpr uint32_t kSlotBytes = kSlotWeights + kSlotY;
constexpr uint32_t kSlots = 4;
constexpr uint32_t kSlotAt = 2 * kXBytes;
constexpr uint32_t kSAt = kSlotAt + kSlots * kSlotBytes;
constexpr uint32_t kIdentityAt = kSAt + kMaxRowRanks * 2;
constexpr uint32_t kIdentityFractals = 4;  // 32 x 32
// L0A: two halves; while expanding, S lies in the first and two tiles of y in the second.
constexpr uint32_t kHalfL0 = 32768;
// L0B: two halves; while expanding, the identity lies at the end of each.
constexpr uint32_t kIdentityL0 = kHalfL0 - kIdentityFractals * kFractalBytes;
// L0C: S, then two tiles of y.
constexpr uint32_t kYL0C = kMaxRowRanks * 4;
constexpr uint32_t kYL0CBytes = 32768;

template <typename T, typename Y, Residual kResidual>
class LoraLinear {
 public:
  __aicore__ inline void Run(GM_ADDR x, GM_ADDR program, GM_ADDR identity) {
    program_.SetGlobalBuffer(reinterpret_cast<__gm__ uint32_t*>(program));
    x_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x));
    const uint32_t core = static_cast<uint32_t>(AscendC::GetBlockIdx());
    uint32_t item = Word(kCoresAt + 2 * core);
    const uint32_t items = Word(kCoresAt + 2 * core + 1);
    if (items == 0) return;
    RaiseFree();
    if (kResidual == Residual::kFused) LoadIdentity(identity);
    for (uint32_t i = 0; i < items; ++i) {
      ReadHead(item);
      Shrink();
      RoundS();
      Expand();
      item += Word(item + kItemWords);
    }
    TakeFree();
  }

 private:
  template <typename E>
  __aicore__ static inline AscendC::LocalTensor<E> At(TPosition where, uint32_t byte,
                                                      uint32_t elements) {
    return AscendC::LocalTensor<E>(where, byte, elements);
  }
  __aicore__ inline uint32_t Word(uint32_t at) { return program_.GetValue(at); }
  __aicore__ inline uint64_t Address(uint32_t at) {
    return static_cast<uint64_t>(Word(at)) | (static_cast<uint64_t>(Word(at + 1)) << 32);
  }
  __aicore__ static inline uint32_t Least(uint32_t a, uint32_t b) { return a < b ? a : b; }

  __aicore__ inline void RaiseFree() {
    for (uint32_t i = 0; i < 6; ++i) AscendC::SetFlag<HardEvent::MTE1_MTE2>(i);
    for (uint32_t i = 0; i < 4; ++i) AscendC::SetFlag<HardEvent::M_MTE1>(i);
    for (uint32_t i = 0; i < 3; ++i) AscendC::SetFlag<HardEvent::FIX_M>(i);
    AscendC::SetFlag<HardEvent::MTE1_FIX>(0);
  }
  __aicore__ inline void TakeFree() {
    for (uint32_t i = 0; i < 6; ++i) AscendC::WaitFlag<HardEvent::MTE1_MTE2>(i);
    for (uint32_t i = 0; i < 4; ++i) AscendC::WaitFlag<HardEvent::M_MTE1>(i);
    for (uint32_t i = 0; i < 3; ++i) AscendC::WaitFlag<HardEvent::FIX_M>(i);
    AscendC::WaitFlag<HardEvent::MTE1_FIX>(0);
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

  __aicore__ inline void ReadHead(uint32_t item) {
    rows_ = Word(item + kItemRows);
    row_blocks_ = Word(item + kItemRowBlocks);
    inner_ = Word(item + kItemInner);
    tiles_ = Word(item + kItemTiles);
    members_ = Word(item + kItemMembers);
    runs_ = Word(item + kItemRuns);
    column_begin_ = Word(item + kItemColumnBegin);
    column_end_ = Word(item + kItemColumnEnd);
    pitch_ = Word(item + kItemPitch);
    steps_ = Word(item + kItemSteps);
    first_group_ = Word(item + kItemFirstGroup);
    padded_ = row_blocks_ * kFractal;
    y_.SetGlobalBuffer(reinterpret_cast<__gm__ Y*>(Address(item + kItemYLow)));
    runs_at_ = item + kItemHead;
    members_at_ = runs_at_ + runs_ * kRunWords;
    tiles_at_ = members_at_ + members_ * kMemberWords;
  }

  // x[rows, k .. k + columns) into L1, a fractal column after another.
  __aicore__ inline void CopyX(uint32_t to, uint32_t k, uint32_t columns) {
    for (uint32_t r = 0; r < runs_; ++r) {
      const uint32_t run = runs_at_ + r * kRunWords;
      const uint32_t count = Word(run + kRunCount);
      AscendC::Nd2NzParams params;
      params.ndNum = 1;
      params.nValue = static_cast<uint16_t>(count);
      params.dValue = static_cast<uint16_t>(columns);
      params.srcNdMatrixStride = 0;
      params.srcDValue = static_cast<uint16_t>(inner_);
      params.dstNzC0Stride = static_cast<uint16_t>(padded_);
      params.dstNzNStride = 1;
      params.dstNzMatrixStride = 0;
      AscendC::DataCopy(At<T>(TPosition::A1, to + Word(run + kRunPlace) * 32,
                              (columns / kFractal - 1) * padded_ * kFractal + count * kFractal),
                        x_[static_cast<uint64_t>(Word(run + kRunRow)) * inner_ + k], params);
    }
  }

  // S[rows, all tiles] = x * A^T, in L0C.
  __aicore__ inline void Shrink() {
    const uint32_t groups = (tiles_ + kGroupTiles - 1) / kGroupTiles;
    AscendC::WaitFlag<HardEvent::FIX_M>(2);
    for (uint32_t k = 0; k < inner_; k += kBlock) {
      const uint32_t fractals = Least(kBlock, inner_ - k) / kFractal;
      const uint32_t x_at = (x_turn_ & 1) * kXBytes;
      const uint32_t x_flag = kSlots + (x_turn_ & 1);
      ++x_turn_;
      AscendC::WaitFlag<HardEvent::MTE1_MTE2>(x_flag);
      CopyX(x_at, k, fractals * kFractal);
      AscendC::SetFlag<HardEvent::MTE2_MTE1>(x_flag);
      for (uint32_t g = 0; g < groups; ++g) {
        uint32_t group = g + first_group_;
        if (group >= groups) group -= groups;
        const uint32_t slot = slot_turn_++ % kSlots;
        CopyA(slot, group, k, fractals);
        if (g == 0) AscendC::WaitFlag<HardEvent::MTE2_MTE1>(x_flag);
        ShrinkGroup(slot, group, x_at, k, fractals);
      }
      AscendC::SetFlag<HardEvent::MTE1_MTE2>(x_flag);
    }
    AscendC::SetFlag<HardEvent::M_FIX>(2);
  }

  __aicore__ inline uint32_t GroupTiles(uint32_t group) {
    return Least(kGroupTiles, tiles_ - group * kGroupTiles);
  }

  __aicore__ inline void CopyA(uint32_t slot, uint32_t group, uint32_t k, uint32_t fractals) {
    const uint32_t elements = fractals * kFractalElements;
    AscendC::WaitFlag<HardEvent::MTE1_MTE2>(slot);
    for (uint32_t t = 0; t < GroupTiles(group); ++t) {
      const uint32_t tile = tiles_at_ + (group * kGroupTiles + t) * kTileWords;
      weights_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(Address(tile + kTileALow)));
      AscendC::DataCopy(
          At<T>(TPosition::B1, kSlotAt + slot * kSlotBytes + t * elements * 2, elements),
          weights_[k * kFractal], elements);
    }
    AscendC::SetFlag<HardEvent::MTE2_MTE1>(slot);
  }

  __aicore__ inline void ShrinkGroup(uint32_t slot, uint32_t group, uint32_t x_at, uint32_t k,
                                     uint32_t fractals) {
    const uint32_t tiles = GroupTiles(group);
    const uint32_t half = weight_turn_++ & 1;
    AscendC::WaitFlag<HardEvent::MTE2_MTE1>(slot);
    AscendC::WaitFlag<HardEvent::M_MTE1>(2 + half);
    for (uint32_t t = 0; t < tiles; ++t) {
      AscendC::LoadData2DParams load;
      load.startIndex = 0;
      load.repeatTimes = static_cast<uint8_t>(fractals);
      load.srcStride = 1;
      load.dstGap = static_cast<uint16_t>(tiles - 1);
      load.ifTranspose = false;
      AscendC::LoadData(
          At<T>(TPosition::B2, half * kHalfL0 + t * kFractalBytes,
                ((fractals - 1) * tiles + 1) * kFractalElements),
          At<T>(TPosition::B1, kSlotAt + slot * kSlotBytes + t * fractals * kFractalBytes,
                fractals * kFractalElements),
          load);
    }
    AscendC::SetFlag<HardEvent::MTE1_MTE2>(slot);
    const uint32_t step_fractals = kStep / kFractal;
    for (uint32_t begin = 0; begin < fractals; begin += steps_ * step_fractals) {
      const uint32_t end = Least(fractals, begin + steps_ * step_fractals);
      const uint32_t x_half = x_half_turn_++ & 1;
      AscendC::WaitFlag<HardEvent::M_MTE1>(x_half);
      for (uint32_t at = begin; at < end; at += step_fractals) {
        LoadX(x_half * kHalfL0 + (at - begin) * padded_ * 32, x_at, at,
              Least(step_fractals, end - at));
      }
      AscendC::SetFlag<HardEvent::MTE1_M>(x_half);
      AscendC::WaitFlag<HardEvent::MTE1_M>(x_half);
      for (uint32_t at = begin; at < end; at += step_fractals) {
        const uint32_t inner = Least(step_fractals, end - at) * kFractal;
        const bool first = k == 0 && at == 0;
        // A product this small would read the sum before the last one has reached it.
        if (!first) AscendC::PipeBarrier<PIPE_M>();
        Multiply(group * kGroupTiles * row_blocks_ * 1024,
                 x_half * kHalfL0 + (at - begin) * padded_ * 32,
                 half * kHalfL0 + at * tiles * kFractalBytes, tiles * kFractal, inner, first);
      }
      AscendC::SetFlag<HardEvent::M_MTE1>(x_half);
    }
    AscendC::SetFlag<HardEvent::M_MTE1>(2 + half);
  }

  // One k-step of x from L1 into L0A: there, a block of 16 rows after another.
  __aicore__ inline void LoadX(uint32_t to, uint32_t x_at, uint32_t fractal, uint32_t fractals) {
    for (uint32_t block = 0; block < row_blocks_; ++block) {
      AscendC::LoadData2DParams load;
      load.startIndex = static_cast<uint16_t>(fractal * row_blocks_ + block);
      load.repeatTimes = static_cast<uint8_t>(fractals);
      load.srcStride = static_cast<uint16_t>(row_blocks_);
      load.dstGap = 0;
      load.ifTranspose = false;
      AscendC::LoadData(
          At<T>(TPosition::A2, to + block * fractals * kFractalBytes, fractals * kFractalElements),
          At<T>(TPosition::A1, x_at, kXBytes / 2), load);
    }
  }

  // L0C[padded rows, columns] (+)= L0A[padded rows, inner] * L0B[inner, columns]; addresses in
  // bytes. Always of padded rows: one row alone would be taken for a vector.
  __aicore__ inline void Multiply(uint32_t to, uint32_t a, uint32_t b, uint32_t columns,
                                  uint32_t inner, bool first) {
    AscendC::MmadParams params;
    params.m = static_cast<uint16_t>(padded_);
    params.n = static_cast<uint16_t>(columns);
    params.k = static_cast<uint16_t>(inner);
    params.cmatrixInitVal = first;
    AscendC::Mmad(At<float>(TPosition::CO1, to, padded_ * columns),
                  At<T>(TPosition::A2, a, padded_ * inner),
                  At<T>(TPosition::B2, b, inner * columns), params);
  }

  // S from L0C to L1, rounded to T; the rows that hold tokens only.
  __aicore__ inline void RoundS() {
    AscendC::WaitFlag<HardEvent::M_FIX>(2);
    AscendC::WaitFlag<HardEvent::MTE1_FIX>(0);
    AscendC::DataCopyCO12DstParams params;
    params.nSize = static_cast<uint16_t>(tiles_ * kFractal);
    params.mSize = static_cast<uint16_t>(rows_);
    params.dstStride = padded_;
    params.srcStride = static_cast<uint16_t>(padded_);
    params.quantPre = CastMode<T>::value;
    params.reluPre = 0;
    params.channelSplit = false;
    params.nz2ndEn = false;
    const uint32_t elements = tiles_ * kFractal * padded_;
    AscendC::DataCopy(At<T>(TPosition::A1, kSAt, elements), At<float>(TPosition::CO1, 0, elements),
                      params);
    AscendC::SetFlag<HardEvent::FIX_MTE1>(0);
    AscendC::SetFlag<HardEvent::FIX_M>(2);
  }

  __aicore__ inline void Expand() {
    AscendC::WaitFlag<HardEvent::FIX_MTE1>(0);
    AscendC::WaitFlag<HardEvent::M_MTE1>(0);
    AscendC::WaitFlag<HardEvent::M_MTE1>(1);
    for (uint32_t m = 0; m < members_; ++m) LoadS(members_at_ + m * kMemberWords);
    AscendC::SetFlag<HardEvent::MTE1_FIX>(0);
    for (uint32_t m = 0; m < members_; ++m) {
      const uint32_t member = members_at_ + m * kMemberWords;
      const uint32_t chunk = Word(member + kMemberChunk);
      const uint32_t columns = column_end_ - column_begin_;
      const uint32_t chunks = (columns + chunk - 1) / chunk;
      uint32_t at = Word(member + kMemberFirstChunk);
      for (uint32_t c = 0; c < chunks; ++c) {
        const uint32_t begin = column_begin_ + at * chunk;
        ExpandChunk(member, begin, Least(chunk, column_end_ - begin));
        if (++at == chunks) at = 0;
      }
    }
    AscendC::SetFlag<HardEvent::M_MTE1>(0);
    AscendC::SetFlag<HardEvent::M_MTE1>(1);
  }

  // The member's S as the left operand: a block of 16 rows after another.
  __aicore__ inline void LoadS(uint32_t member) {
    const uint32_t tile = Word(member + kMemberTileBegin);
    const uint32_t tiles = Word(member + kMemberTiles);
    for (uint32_t block = 0; block < row_blocks_; ++block) {
      AscendC::LoadData2DParams load;
      load.startIndex = static_cast<uint16_t>(tile * row_blocks_ + block);
      load.repeatTimes = static_cast<uint8_t>(tiles);
      load.srcStride = static_cast<uint16_t>(row_blocks_);
      load.dstGap = 0;
      load.ifTranspose = false;
      AscendC::LoadData(At<T>(TPosition::A2, (tile * row_blocks_ + block * tiles) * kFractalBytes,
                              tiles * kFractalElements),
                        At<T>(TPosition::A1, kSAt, tiles_ * row_blocks_ * kFractalElements), load);
    }
  }

  // y[the member's rows, begin .. begin + columns)
  __aicore__ inline void ExpandChunk(uint32_t member, uint32_t begin, uint32_t columns) {
    const uint32_t tile = Word(member + kMemberTileBegin);
    const uint32_t tiles = Word(member + kMemberTiles);
    const uint32_t fractals = columns / kFractal;
    const uint32_t slot = slot_turn_++ % kSlots;
    const uint32_t weights_at = kSlotAt + slot * kSlotBytes;
    const uint32_t y_at = weights_at + kSlotWeights;

    AscendC::WaitFlag<HardEvent::MTE1_MTE2>(slot);
    CopyB(weights_at, tile, tiles, begin, fractals);
    if (kResidual == Residual::kFused) CopyY(member, y_at, begin, columns);
    AscendC::SetFlag<HardEvent::MTE2_MTE1>(slot);

    const uint32_t half = weight_turn_++ & 1;
    const uint32_t y_l0a = kHalfL0 + half * kSlotY;
    AscendC::WaitFlag<HardEvent::MTE2_MTE1>(slot);
    AscendC::WaitFlag<HardEvent::M_MTE1>(2 + half);
    LoadPlain(TPosition::B2, half * kHalfL0, weights_at, tiles * fractals);
    if (kResidual == Residual::kFused) {
      LoadPlain(TPosition::A2, y_l0a, y_at, row_blocks_ * fractals);
      LoadPlain(TPosition::B2, half * kHalfL0 + kIdentityL0, kIdentityAt, kIdentityFractals);
    }
    AscendC::SetFlag<HardEvent::MTE1_MTE2>(slot);
    AscendC::SetFlag<HardEvent::MTE1_M>(half);

    const uint32_t y_turn = y_turn_++ & 1;
    const uint32_t y_l0c = kYL0C + y_turn * kYL0CBytes;
    AscendC::WaitFlag<HardEvent::MTE1_M>(half);
    AscendC::WaitFlag<HardEvent::FIX_M>(y_turn);
    if (kResidual == Residual::kFused) {
      MultiplyIdentity(y_l0c, y_l0a, half * kHalfL0 + kIdentityL0, fractals);
      AscendC::PipeBarrier<PIPE_M>();
    }
    Multiply(y_l0c, tile * row_blocks_ * kFractalBytes, half * kHalfL0, columns, tiles * kFractal,
             kResidual != Residual::kFused);
    AscendC::SetFlag<HardEvent::M_MTE1>(2 + half);
    AscendC::SetFlag<HardEvent::M_FIX>(y_turn);

    AscendC::WaitFlag<HardEvent::M_FIX>(y_turn);
    WriteY(member, y_l0c, begin, columns);
    AscendC::SetFlag<HardEvent::FIX_M>(y_turn);
  }

  __aicore__ inline void CopyB(uint32_t to, uint32_t tile, uint32_t tiles, uint32_t begin,
                               uint32_t fractals) {
    const uint32_t elements = fractals * kFractalElements;
    for (uint32_t t = 0; t < tiles; ++t) {
      const uint32_t word = tiles_at_ + (tile + t) * kTileWords;
      weights_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(Address(word + kTileBLow)));
      AscendC::DataCopy(At<T>(TPosition::B1, to + t * elements * 2, elements),
                        weights_[begin * kFractal], elements);
    }
  }

  __aicore__ inline void CopyY(uint32_t member, uint32_t to, uint32_t begin, uint32_t columns) {
    for (uint32_t r = Word(member + kMemberRunBegin); r < Word(member + kMemberRunEnd); ++r) {
      const uint32_t run = runs_at_ + r * kRunWords;
      const uint32_t count = Word(run + kRunCount);
      AscendC::Nd2NzParams params;
      params.ndNum = 1;
      params.nValue = static_cast<uint16_t>(count);
      params.dValue = static_cast<uint16_t>(columns);
      params.srcNdMatrixStride = 0;
      params.srcDValue = static_cast<uint16_t>(pitch_);
      params.dstNzC0Stride = static_cast<uint16_t>(padded_);
      params.dstNzNStride = 1;
      params.dstNzMatrixStride = 0;
      AscendC::DataCopy(At<Y>(TPosition::A1, to + Word(run + kRunPlace) * 32,
                              (columns / kFractal - 1) * padded_ * kFractal + count * kFractal),
                        y_[static_cast<uint64_t>(Word(run + kRunRow)) * pitch_ + begin], params);
    }
  }

  // `fractals` of them, in order, from L1.
  __aicore__ inline void LoadPlain(TPosition where, uint32_t to, uint32_t from, uint32_t fractals) {
    AscendC::LoadData2DParams load;
    load.startIndex = 0;
    load.repeatTimes = static_cast<uint8_t>(fractals);
    load.srcStride = 1;
    load.dstGap = 0;
    load.ifTranspose = false;
    const uint32_t elements = fractals * kFractalElements;
    const TPosition source = where == TPosition::A2 ? TPosition::A1 : TPosition::B1;
    AscendC::LoadData(At<T>(where, to, elements), At<T>(source, from, elements), load);
  }

  // L0C tile of y = y * I, so that a row that is not finite stays in its row. 32 columns at a time
  // where a fractal column of y is one fractal; else 16.
  __aicore__ inline void MultiplyIdentity(uint32_t to, uint32_t y, uint32_t identity,
                                          uint32_t fractals) {
    const uint32_t width = row_blocks_ == 1 ? 2 : 1;
    for (uint32_t f = 0; f < fractals; f += width) {
      const uint32_t columns = Least(width, fractals - f) * kFractal;
      Multiply(to + f * row_blocks_ * 1024, y + f * row_blocks_ * kFractalBytes, identity, columns,
               columns, true);
    }
  }

  __aicore__ inline void WriteY(uint32_t member, uint32_t from, uint32_t begin, uint32_t columns) {
    if (kResidual == Residual::kAtomic) AscendC::SetAtomicAdd<Y>();
    for (uint32_t r = Word(member + kMemberRunBegin); r < Word(member + kMemberRunEnd); ++r) {
      const uint32_t run = runs_at_ + r * kRunWords;
      const uint32_t place = Word(run + kRunPlace);
      AscendC::FixpipeParamsV220 params;
      params.nSize = static_cast<uint16_t>(columns);
      params.mSize = static_cast<uint16_t>(Word(run + kRunCount));
      params.srcStride = static_cast<uint16_t>(padded_);
      params.dstStride = pitch_;
      params.ndNum = 1;
      params.srcNdStride = 0;
      params.dstNdStride = 0;
      params.quantPre = CastMode<Y>::value;
      AscendC::Fixpipe<Y, float, AscendC::CFG_ROW_MAJOR>(
          y_[static_cast<uint64_t>(Word(run + kRunRow)) * pitch_ + begin],
          At<float>(TPosition::CO1, from + place * 64, padded_ * columns - place * kFractal),
          params);
    }
    if (kResidual == Residual::kAtomic) AscendC::SetAtomicNone();
  }

  AscendC::GlobalTensor<uint32_t> program_;
  AscendC::GlobalTensor<T> x_;
  AscendC::GlobalTensor<T> weights_;
  AscendC::GlobalTensor<Y> y_;
  // Of the item at hand.
  uint32_t rows_ = 0;
  uint32_t row_blocks_ = 0;
  uint32_t padded_ = 0;
  uint32_t inner_ = 0;
  uint32_t tiles_ = 0;
  uint32_t members_ = 0;
  uint32_t runs_ = 0;
  uint32_t column_begin_ = 0;
  uint32_t column_end_ = 0;
  uint32_t pitch_ = 0;
  uint32_t steps_ = 0;
  uint32_t first_group_ = 0;
  uint32_t runs_at_ = 0;
  uint32_t members_at_ = 0;
  uint32_t tiles_at_ = 0;
  // Whose turn it is in each ring; they run on from item to item.
  uint32_t x_turn_ = 0;
  uint32_t slot_turn_ = 0;
  uint32_t x_half_turn_ = 0;
  uint32_t weight_turn_ = 0;
  uint32_t y_turn_ = 0;
};

}  // namespace ascend
}  // namespace lorica

extern "C" __global__ __aicore__ void lora_linear_f16(GM_ADDR x, GM_ADDR program,
                                                      GM_ADDR identity) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
  lorica::ascend::LoraLinear<half, half, lorica::ascend::Residual::kFused> op;
  op.Run(x, program, identity);
}

extern "C" __global__ __aicore__ void lora_linear_bf16(GM_ADDR x, GM_ADDR program,
                                                       GM_ADDR identity) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
  lorica::ascend::LoraLinear<bfloat16_t, bfloat16_t, lorica::ascend::Residual::kFused> op;
  op.Run(x, program, identity);
}

// The residual by an atomic add: y is rounded twice where it has 16 bits, once in fp32.
extern "C" __global__ __aicore__ void lora_linear_f16_atomic(GM_ADDR x, GM_ADDR program,
                                                             GM_ADDR identity) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
  lorica::ascend::LoraLinear<half, half, lorica::ascend::Residual::kAtomic> op;
  op.Run(x, program, identity);
}

extern "C" __global__ __aicore__ void lora_linear_bf16_atomic(GM_ADDR x, GM_ADDR program,
                                                              GM_ADDR identity) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
  lorica::ascend::LoraLinear<bfloat16_t, bfloat16_t, lorica::ascend::Residual::kAtomic> op;
  op.Run(x, program, identity);
}

extern "C" __global__ __aicore__ void lora_linear_f16_f32(GM_ADDR x, GM_ADDR program,
                                                          GM_ADDR identity) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
  lorica::ascend::LoraLinear<half, float, lorica::ascend::Residual::kAtomic> op;
  op.Run(x, program, identity);
}

extern "C" __global__ __aicore__ void lora_linear_bf16_f32(GM_ADDR x, GM_ADDR program,
                                                           GM_ADDR identity) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
  lorica::ascend::LoraLinear<bfloat16_t, float, lorica::ascend::Residual::kAtomic> op;
  op.Run(x, program, identity);
}
