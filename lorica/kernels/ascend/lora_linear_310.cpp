// The same operator for arch 2002 (Ascend 310P), where one core owns the cube and the vector unit:
// S goes L0C -> UB in fp32, is scaled and rounded there, and UB -> L1; the delta of y goes
// L0C -> UB, and the residual is added in fp32. fp16 only; no atomics, no fixpipe. The plan, the
// words (lora_program.h) and the k-steps are those of lora_linear.cpp.
//
// Calls and their public pages (Ascend C API reference, "SIMD API, basic"): those of
// lora_linear.cpp but Fixpipe and the atomics; DataCopy CO1 to UB with DataCopyEnhancedParams
// (BLOCK_MODE_MATRIX), DataCopy UB to A1, DataCopy GM to and from UB with DataCopyParams, Muls,
// Cast, Add. The last 8 KB of UB are left to nd2nz, which this architecture makes of vector copies.
//
// One buffer a path: no claim about cycles is made for this kernel. Flag 0 of each pair is the
// path's own; V_MTE3 has 0 for S, 1 for y. S in UB and in L1 needs no "free": what reads it comes,
// through the products of the expand, before what writes it next.
#include "kernel_operator.h"
#include "lorica/kernels/ascend/lora_program.h"

namespace lorica {
namespace ascend {

using AscendC::HardEvent;
using AscendC::TPosition;

// L1, in bytes.
constexpr uint32_t kXAt310 = 0;
constexpr uint32_t kWeightsAt310 = kXAt310 + kMaxRows2002 * kBlock * 2;
constexpr uint32_t kWeightsBytes310 = 32768;
constexpr uint32_t kSAt310 = kWeightsAt310 + kWeightsBytes310;
// L0A: x at the start; while expanding, S.
// L0C: S, then a tile of y.
constexpr uint32_t kYL0C310 = kMaxRowRanks * 4;
// UB.
constexpr uint32_t kS32 = 0;
constexpr uint32_t kS16 = kS32 + kMaxRowRanks * 4;
constexpr uint32_t kDelta = kS16 + kMaxRowRanks * 2;
constexpr uint32_t kDeltaBytes = 32768;
constexpr uint32_t kY16 = kDelta + kDeltaBytes;
constexpr uint32_t kY32 = kY16 + kDeltaBytes / 2;
constexpr uint32_t kSum16 = kY32 + kDeltaBytes;

class LoraLinear310 {
 public:
  __aicore__ inline void Run(GM_ADDR x, GM_ADDR program) {
    program_.SetGlobalBuffer(reinterpret_cast<__gm__ uint64_t*>(program));
    numbers_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(program));
    x_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(x));
    const uint32_t core = static_cast<uint32_t>(AscendC::GetBlockIdx());
    const uint64_t share = Word(kCoresAt + core * kCoreWords + kCoreFirst);
    uint32_t item = static_cast<uint32_t>(share);
    const uint32_t items = FieldOf(Word(kCoresAt + core * kCoreWords + kCoreRest), 0);
    if (items == 0) return;
    AscendC::SetFlag<HardEvent::MTE1_MTE2>(0);
    AscendC::SetFlag<HardEvent::M_MTE1>(0);
    AscendC::SetFlag<HardEvent::V_M>(0);
    AscendC::SetFlag<HardEvent::V_MTE2>(0);
    AscendC::SetFlag<HardEvent::MTE3_V>(1);
    for (uint32_t i = 0; i < items; ++i) {
      ReadHead(item);
      Shrink();
      RoundS();
      Expand();
      item += static_cast<uint32_t>(Word(item + kItemSize));
    }
    AscendC::WaitFlag<HardEvent::MTE1_MTE2>(0);
    AscendC::WaitFlag<HardEvent::M_MTE1>(0);
    AscendC::WaitFlag<HardEvent::V_M>(0);
    AscendC::WaitFlag<HardEvent::V_MTE2>(0);
    AscendC::WaitFlag<HardEvent::MTE3_V>(1);
  }

 private:
  template <typename E>
  __aicore__ static inline AscendC::LocalTensor<E> At(TPosition where, uint32_t byte,
                                                      uint32_t elements) {
    return AscendC::LocalTensor<E>(where, byte, elements);
  }
  __aicore__ inline uint64_t Word(uint32_t at) { return program_.GetValue(at); }
  __aicore__ static inline uint32_t Least(uint32_t a, uint32_t b) { return a < b ? a : b; }

  __aicore__ inline void ReadHead(uint32_t item) {
    const uint64_t size = Word(item + kItemSize);
    const uint64_t shape = Word(item + kItemShape);
    const uint64_t range = Word(item + kItemColumns);
    rows_ = FieldOf(size, 2);
    runs_ = FieldOf(size, 3);
    inner_ = FieldOf(shape, 0);
    tiles_ = FieldOf(shape, 1);
    members_ = FieldOf(shape, 2);
    column_begin_ = FieldOf(range, 0);
    column_end_ = FieldOf(range, 1);
    pitch_ = FieldOf(range, 2);
    row_blocks_ = (rows_ + kFractal - 1) / kFractal;
    padded_ = row_blocks_ * kFractal;
    y_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(Word(item + kItemY)));
    runs_at_ = item + kItemHead;
    members_at_ = runs_at_ + runs_ * kRunWords;
    tiles_at_ = members_at_ + members_ * kMemberWords;
  }

  // S[rows, all tiles] = x * A^T, in L0C.
  __aicore__ inline void Shrink() {
    AscendC::WaitFlag<HardEvent::V_M>(0);
    for (uint32_t k = 0; k < inner_; k += kBlock) {
      const uint32_t fractals = Least(kBlock, inner_ - k) / kFractal;
      for (uint32_t tile = 0; tile < tiles_; tile += kGroupTiles) {
        const uint32_t tiles = Least(kGroupTiles, tiles_ - tile);
        AscendC::WaitFlag<HardEvent::MTE1_MTE2>(0);
        if (tile == 0) CopyX(k, fractals * kFractal);
        CopyA(tile, tiles, k, fractals);
        AscendC::SetFlag<HardEvent::MTE2_MTE1>(0);
        AscendC::WaitFlag<HardEvent::MTE2_MTE1>(0);
        ShrinkSteps(tile, tiles, k, fractals);
        AscendC::SetFlag<HardEvent::MTE1_MTE2>(0);
      }
    }
    AscendC::SetFlag<HardEvent::M_V>(0);
  }

  __aicore__ inline void CopyX(uint32_t k, uint32_t columns) {
    for (uint32_t r = 0; r < runs_; ++r) {
      const uint64_t run = Word(runs_at_ + r * kRunWords);
      const uint32_t count = FieldOf(run, 3);
      AscendC::Nd2NzParams params;
      params.nValue = static_cast<uint16_t>(count);
      params.dValue = static_cast<uint16_t>(columns);
      params.srcDValue = static_cast<uint16_t>(inner_);
      params.dstNzC0Stride = static_cast<uint16_t>(padded_);
      params.dstNzNStride = 1;
      AscendC::DataCopy(At<half>(TPosition::A1, kXAt310 + FieldOf(run, 2) * 32,
                                 (columns / kFractal - 1) * padded_ * kFractal + count * kFractal),
                        x_[static_cast<uint64_t>(static_cast<uint32_t>(run)) * inner_ + k], params);
    }
  }

  __aicore__ inline void CopyA(uint32_t tile, uint32_t tiles, uint32_t k, uint32_t fractals) {
    const uint32_t elements = fractals * kFractalElements;
    for (uint32_t t = 0; t < tiles; ++t) {
      const uint32_t word = tiles_at_ + (tile + t) * kTileWords;
      weights_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(Word(word + kTileA)));
      AscendC::DataCopy(At<half>(TPosition::B1, kWeightsAt310 + t * elements * 2, elements),
                        weights_[k * kFractal], elements);
    }
  }

  __aicore__ inline void ShrinkSteps(uint32_t tile, uint32_t tiles, uint32_t k, uint32_t fractals) {
    const uint32_t step_fractals = kStep / kFractal;
    for (uint32_t at = 0; at < fractals; at += step_fractals) {
      const uint32_t step = Least(step_fractals, fractals - at);
      AscendC::WaitFlag<HardEvent::M_MTE1>(0);
      for (uint32_t t = 0; t < tiles; ++t) {
        Load(
            At<half>(TPosition::B2, t * kFractalBytes, ((step - 1) * tiles + 1) * kFractalElements),
            At<half>(TPosition::B1, kWeightsAt310 + (t * fractals + at) * kFractalBytes,
                     step * kFractalElements),
            0, step, 1, tiles - 1);
      }
      for (uint32_t block = 0; block < row_blocks_; ++block) {
        Load(At<half>(TPosition::A2, block * step * kFractalBytes, step * kFractalElements),
             At<half>(TPosition::A1, kXAt310, kMaxRows2002 * kBlock), at * row_blocks_ + block,
             step, row_blocks_, 0);
      }
      AscendC::SetFlag<HardEvent::MTE1_M>(0);
      AscendC::WaitFlag<HardEvent::MTE1_M>(0);
      const bool first = k == 0 && at == 0;
      if (!first) AscendC::PipeBarrier<PIPE_M>();
      Multiply(tile * row_blocks_ * 1024, 0, tiles * kFractal, step * kFractal, first);
      AscendC::SetFlag<HardEvent::M_MTE1>(0);
    }
  }

  __aicore__ inline void Load(const AscendC::LocalTensor<half>& to,
                              const AscendC::LocalTensor<half>& from, uint32_t start,
                              uint32_t count, uint32_t stride, uint32_t gap) {
    AscendC::LoadData2DParams load;
    load.startIndex = static_cast<uint16_t>(start);
    load.repeatTimes = static_cast<uint8_t>(count);
    load.srcStride = static_cast<uint16_t>(stride);
    load.dstGap = static_cast<uint16_t>(gap);
    load.ifTranspose = false;
    AscendC::LoadData(to, from, load);
  }

  // L0C[padded rows, columns] (+)= L0A[padded rows, inner] * L0B[inner, columns].
  __aicore__ inline void Multiply(uint32_t to, uint32_t a, uint32_t columns, uint32_t inner,
                                  bool first) {
    AscendC::MmadParams params;
    params.m = static_cast<uint16_t>(padded_);
    params.n = static_cast<uint16_t>(columns);
    params.k = static_cast<uint16_t>(inner);
    params.cmatrixInitVal = first;
    AscendC::Mmad(At<float>(TPosition::CO1, to, padded_ * columns),
                  At<half>(TPosition::A2, a, padded_ * inner),
                  At<half>(TPosition::B2, 0, inner * columns), params);
  }

  // L0C -> UB, whole fractals of `blocks` column blocks.
  __aicore__ inline void CopyOut(uint32_t to, uint32_t from, uint32_t blocks) {
    AscendC::DataCopyParams params;
    params.blockLen = static_cast<uint16_t>(blocks * row_blocks_);
    AscendC::DataCopyEnhancedParams enhanced;
    enhanced.blockMode = AscendC::BlockMode::BLOCK_MODE_MATRIX;
    const uint32_t elements = blocks * row_blocks_ * kFractalElements;
    AscendC::DataCopy(At<float>(TPosition::VECCALC, to, elements),
                      At<float>(TPosition::CO1, from, elements), params, enhanced);
  }

  // S: out of L0C, times the scale, rounded, into L1; the rows that hold tokens only.
  __aicore__ inline void RoundS() {
    AscendC::WaitFlag<HardEvent::M_V>(0);
    CopyOut(kS32, 0, tiles_);
    AscendC::SetFlag<HardEvent::V_M>(0);
    AscendC::PipeBarrier<PIPE_V>();
    const uint32_t count = rows_ * kFractal;
    for (uint32_t t = 0; t < tiles_; ++t) {
      const float scale = numbers_.GetValue(2 * (tiles_at_ + t * kTileWords + kTileScale));
      const AscendC::LocalTensor<float> s =
          At<float>(TPosition::VECCALC, kS32 + t * padded_ * 64, count);
      AscendC::Muls(s, s, scale, static_cast<int32_t>(count));
    }
    AscendC::PipeBarrier<PIPE_V>();
    for (uint32_t t = 0; t < tiles_; ++t) {
      AscendC::Cast(At<half>(TPosition::VECCALC, kS16 + t * padded_ * 32, count),
                    At<float>(TPosition::VECCALC, kS32 + t * padded_ * 64, count),
                    AscendC::RoundMode::CAST_RINT, count);
    }
    AscendC::SetFlag<HardEvent::V_MTE3>(0);
    AscendC::WaitFlag<HardEvent::V_MTE3>(0);
    for (uint32_t t = 0; t < tiles_; ++t) {
      AscendC::DataCopy(At<half>(TPosition::A1, kSAt310 + t * padded_ * 32, count),
                        At<half>(TPosition::VECCALC, kS16 + t * padded_ * 32, count), count);
    }
    AscendC::SetFlag<HardEvent::MTE3_MTE1>(0);
  }

  __aicore__ inline void Expand() {
    AscendC::WaitFlag<HardEvent::MTE3_MTE1>(0);
    AscendC::WaitFlag<HardEvent::M_MTE1>(0);
    for (uint32_t m = 0; m < members_; ++m) {
      const uint32_t member = members_at_ + m * kMemberWords;
      const uint64_t span = Word(member + kMemberSpan);
      const uint32_t tile = FieldOf(span, 2);
      const uint32_t tiles = FieldOf(span, 3);
      for (uint32_t block = 0; block < row_blocks_; ++block) {
        Load(At<half>(TPosition::A2, (tile * row_blocks_ + block * tiles) * kFractalBytes,
                      tiles * kFractalElements),
             At<half>(TPosition::A1, kSAt310, tiles_ * row_blocks_ * kFractalElements),
             tile * row_blocks_ + block, tiles, row_blocks_, 0);
      }
    }
    // The last chunk's flag tells that S may be overwritten.
    AscendC::SetFlag<HardEvent::M_MTE1>(0);
    for (uint32_t m = 0; m < members_; ++m) {
      const uint32_t member = members_at_ + m * kMemberWords;
      const uint64_t span = Word(member + kMemberSpan);
      const uint32_t chunk = FieldOf(Word(member + kMemberChunk), 0);
      for (uint32_t begin = column_begin_; begin < column_end_; begin += chunk) {
        ExpandChunk(span, begin, Least(chunk, column_end_ - begin));
      }
    }
  }

  __aicore__ inline void ExpandChunk(uint64_t span, uint32_t begin, uint32_t columns) {
    const uint32_t tile = FieldOf(span, 2);
    const uint32_t tiles = FieldOf(span, 3);
    const uint32_t fractals = columns / kFractal;
    AscendC::WaitFlag<HardEvent::MTE1_MTE2>(0);
    for (uint32_t t = 0; t < tiles; ++t) {
      const uint32_t word = tiles_at_ + (tile + t) * kTileWords;
      const uint32_t elements = fractals * kFractalElements;
      weights_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(Word(word + kTileB)));
      AscendC::DataCopy(At<half>(TPosition::B1, kWeightsAt310 + t * elements * 2, elements),
                        weights_[begin * kFractal], elements);
    }
    AscendC::SetFlag<HardEvent::MTE2_MTE1>(0);
    AscendC::WaitFlag<HardEvent::V_MTE2>(0);
    CopyY(span, begin, columns);
    AscendC::SetFlag<HardEvent::MTE2_V>(0);

    AscendC::WaitFlag<HardEvent::MTE2_MTE1>(0);
    AscendC::WaitFlag<HardEvent::M_MTE1>(0);
    const uint32_t weights = tiles * fractals;
    Load(At<half>(TPosition::B2, 0, weights * kFractalElements),
         At<half>(TPosition::B1, kWeightsAt310, weights * kFractalElements), 0, weights, 1, 0);
    AscendC::SetFlag<HardEvent::MTE1_MTE2>(0);
    AscendC::SetFlag<HardEvent::MTE1_M>(0);
    AscendC::WaitFlag<HardEvent::MTE1_M>(0);
    AscendC::WaitFlag<HardEvent::V_M>(0);
    Multiply(kYL0C310, tile * row_blocks_ * kFractalBytes, columns, tiles * kFractal, true);
    AscendC::SetFlag<HardEvent::M_MTE1>(0);
    AscendC::SetFlag<HardEvent::M_V>(0);

    AscendC::WaitFlag<HardEvent::M_V>(0);
    CopyOut(kDelta, kYL0C310, fractals);
    AscendC::SetFlag<HardEvent::V_M>(0);
    AddY(span, columns);
    WriteY(span, begin, columns);
  }

  __aicore__ inline void CopyY(uint64_t span, uint32_t begin, uint32_t columns) {
    for (uint32_t r = FieldOf(span, 0); r < FieldOf(span, 1); ++r) {
      const uint64_t run = Word(runs_at_ + r * kRunWords);
      const uint32_t count = FieldOf(run, 3);
      AscendC::DataCopyParams params;
      params.blockCount = static_cast<uint16_t>(count);
      params.blockLen = static_cast<uint16_t>(columns / kFractal);
      params.srcStride = static_cast<uint16_t>((pitch_ - columns) / kFractal);
      AscendC::DataCopy(
          At<half>(TPosition::VECCALC, kY16 + FieldOf(run, 2) * columns * 2, count * columns),
          y_[static_cast<uint64_t>(static_cast<uint32_t>(run)) * pitch_ + begin], params);
    }
  }

  // y + delta in fp32, row by row: the delta's row lies in pieces of 16 columns.
  __aicore__ inline void AddY(uint64_t span, uint32_t columns) {
    const uint64_t first = Word(runs_at_ + FieldOf(span, 0) * kRunWords);
    const uint64_t last = Word(runs_at_ + (FieldOf(span, 1) - 1) * kRunWords);
    const uint32_t row_begin = FieldOf(first, 2);
    const uint32_t row_end = FieldOf(last, 2) + FieldOf(last, 3);
    const uint32_t count = (row_end - row_begin) * columns;
    const uint32_t at = row_begin * columns;
    AscendC::WaitFlag<HardEvent::MTE2_V>(0);
    AscendC::Cast(At<float>(TPosition::VECCALC, kY32 + at * 4, count),
                  At<half>(TPosition::VECCALC, kY16 + at * 2, count), AscendC::RoundMode::CAST_NONE,
                  count);
    AscendC::SetFlag<HardEvent::V_MTE2>(0);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::BinaryRepeatParams params;
    params.dstBlkStride = 1;
    params.src0BlkStride = 1;
    params.src1BlkStride = 1;
    params.dstRepStride = 2;
    params.src0RepStride = 2;
    params.src1RepStride = static_cast<uint8_t>(padded_ * 2);
    for (uint32_t row = row_begin; row < row_end; ++row) {
      const AscendC::LocalTensor<float> y =
          At<float>(TPosition::VECCALC, kY32 + row * columns * 4, columns);
      AscendC::Add(y, y,
                   At<float>(TPosition::VECCALC, kDelta + row * 64,
                             (columns / kFractal - 1) * padded_ * kFractal + kFractal),
                   kFractal, static_cast<uint8_t>(columns / kFractal), params);
    }
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::WaitFlag<HardEvent::MTE3_V>(1);
    AscendC::Cast(At<half>(TPosition::VECCALC, kSum16 + at * 2, count),
                  At<float>(TPosition::VECCALC, kY32 + at * 4, count),
                  AscendC::RoundMode::CAST_RINT, count);
    AscendC::SetFlag<HardEvent::V_MTE3>(1);
  }

  __aicore__ inline void WriteY(uint64_t span, uint32_t begin, uint32_t columns) {
    AscendC::WaitFlag<HardEvent::V_MTE3>(1);
    for (uint32_t r = FieldOf(span, 0); r < FieldOf(span, 1); ++r) {
      const uint64_t run = Word(runs_at_ + r * kRunWords);
      const uint32_t count = FieldOf(run, 3);
      AscendC::DataCopyParams params;
      params.blockCount = static_cast<uint16_t>(count);
      params.blockLen = static_cast<uint16_t>(columns / kFractal);
      params.dstStride = static_cast<uint16_t>((pitch_ - columns) / kFractal);
      AscendC::DataCopy(
          y_[static_cast<uint64_t>(static_cast<uint32_t>(run)) * pitch_ + begin],
          At<half>(TPosition::VECCALC, kSum16 + FieldOf(run, 2) * columns * 2, count * columns),
          params);
    }
    AscendC::SetFlag<HardEvent::MTE3_V>(1);
  }

  AscendC::GlobalTensor<uint64_t> program_;
  AscendC::GlobalTensor<float> numbers_;
  AscendC::GlobalTensor<half> x_;
  AscendC::GlobalTensor<half> weights_;
  AscendC::GlobalTensor<half> y_;
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
  uint32_t runs_at_ = 0;
  uint32_t members_at_ = 0;
  uint32_t tiles_at_ = 0;
};

}  // namespace ascend
}  // namespace lorica

extern "C" __global__ __aicore__ void lora_linear_310(GM_ADDR x, GM_ADDR program,
                                                      GM_ADDR identity) {
  lorica::ascend::LoraLinear310 op;
  op.Run(x, program);
}
