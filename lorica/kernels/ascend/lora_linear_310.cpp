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
#include "lorica/kernels/ascend/lora_linear_item.h"
#include "lorica/kernels/ascend/lora_linear_l0.h"

namespace lorica {
namespace ascend {

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
    item_.next = static_cast<uint32_t>(share);
    const uint32_t items = FieldOf(Word(kCoresAt + core * kCoreWords + kCoreRest), 0);
    if (items == 0) return;
    AscendC::SetFlag<HardEvent::MTE1_MTE2>(0);
    AscendC::SetFlag<HardEvent::M_MTE1>(0);
    AscendC::SetFlag<HardEvent::V_M>(0);
    AscendC::SetFlag<HardEvent::V_MTE2>(0);
    AscendC::SetFlag<HardEvent::MTE3_V>(1);
    for (uint32_t i = 0; i < items; ++i) {
      item_.Read(program_, item_.next);
      y_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(item_.Y(program_)));
      Shrink();
      RoundS();
      Expand();
    }
    AscendC::WaitFlag<HardEvent::MTE1_MTE2>(0);
    AscendC::WaitFlag<HardEvent::M_MTE1>(0);
    AscendC::WaitFlag<HardEvent::V_M>(0);
    AscendC::WaitFlag<HardEvent::V_MTE2>(0);
    AscendC::WaitFlag<HardEvent::MTE3_V>(1);
  }

 private:
  __aicore__ inline uint64_t Word(uint32_t at) { return program_.GetValue(at); }

  // S[rows, all tiles] = x * A^T, in L0C.
  __aicore__ inline void Shrink() {
    AscendC::WaitFlag<HardEvent::V_M>(0);
    for (uint32_t k = 0; k < item_.inner; k += kBlock) {
      const uint32_t fractals = Least(kBlock, item_.inner - k) / kFractal;
      for (uint32_t tile = 0; tile < item_.tiles; tile += kGroupTiles) {
        const uint32_t tiles = Least(kGroupTiles, item_.tiles - tile);
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
    for (uint32_t r = 0; r < item_.runs; ++r) {
      const uint64_t run = Word(item_.runs_at + r * kRunWords);
      const uint32_t count = FieldOf(run, 3);
      AscendC::Nd2NzParams params;
      params.nValue = static_cast<uint16_t>(count);
      params.dValue = static_cast<uint16_t>(columns);
      params.srcDValue = static_cast<uint16_t>(item_.inner);
      params.dstNzC0Stride = static_cast<uint16_t>(item_.padded);
      params.dstNzNStride = 1;
      AscendC::DataCopy(
          At<half>(TPosition::A1, kXAt310 + FieldOf(run, 2) * 32,
                   (columns / kFractal - 1) * item_.padded * kFractal + count * kFractal),
          x_[static_cast<uint64_t>(static_cast<uint32_t>(run)) * item_.inner + k], params);
    }
  }

  __aicore__ inline void CopyA(uint32_t tile, uint32_t tiles, uint32_t k, uint32_t fractals) {
    const uint32_t elements = fractals * kFractalElements;
    for (uint32_t t = 0; t < tiles; ++t) {
      const uint32_t word = item_.tiles_at + (tile + t) * kTileWords;
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
        Fractals load;
        load.to = t * kFractalBytes;
        load.from = kWeightsAt310 + (t * fractals + at) * kFractalBytes;
        load.count = step;
        load.gap = tiles - 1;
        Load<half>(TPosition::B2, load);
      }
      for (uint32_t block = 0; block < item_.row_blocks; ++block) {
        Fractals load;
        load.to = block * step * kFractalBytes;
        load.from = kXAt310 + (at * item_.row_blocks + block) * kFractalBytes;
        load.count = step;
        load.stride = item_.row_blocks;
        Load<half>(TPosition::A2, load);
      }
      AscendC::SetFlag<HardEvent::MTE1_M>(0);
      AscendC::WaitFlag<HardEvent::MTE1_M>(0);
      const bool first = k == 0 && at == 0;
      if (!first) AscendC::PipeBarrier<PIPE_M>();
      Product product;
      product.to = tile * item_.row_blocks * 1024;
      product.rows = item_.padded;
      product.columns = tiles * kFractal;
      product.inner = step * kFractal;
      product.first = first;
      Multiply<half>(product);
      AscendC::SetFlag<HardEvent::M_MTE1>(0);
    }
  }

  // L0C -> UB, whole fractals of `blocks` column blocks.
  __aicore__ inline void CopyOut(uint32_t to, uint32_t from, uint32_t blocks) {
    AscendC::DataCopyParams params;
    params.blockLen = static_cast<uint16_t>(blocks * item_.row_blocks);
    AscendC::DataCopyEnhancedParams enhanced;
    enhanced.blockMode = AscendC::BlockMode::BLOCK_MODE_MATRIX;
    const uint32_t elements = blocks * item_.row_blocks * kFractalElements;
    AscendC::DataCopy(At<float>(TPosition::VECCALC, to, elements),
                      At<float>(TPosition::CO1, from, elements), params, enhanced);
  }

  // S: out of L0C, times the scale, rounded, into L1; the rows that hold tokens only.
  __aicore__ inline void RoundS() {
    AscendC::WaitFlag<HardEvent::M_V>(0);
    CopyOut(kS32, 0, item_.tiles);
    AscendC::SetFlag<HardEvent::V_M>(0);
    AscendC::PipeBarrier<PIPE_V>();
    const uint32_t count = item_.rows * kFractal;
    for (uint32_t t = 0; t < item_.tiles; ++t) {
      const float scale = numbers_.GetValue(2 * (item_.tiles_at + t * kTileWords + kTileScale));
      const AscendC::LocalTensor<float> s =
          At<float>(TPosition::VECCALC, kS32 + t * item_.padded * 64, count);
      AscendC::Muls(s, s, scale, static_cast<int32_t>(count));
    }
    AscendC::PipeBarrier<PIPE_V>();
    for (uint32_t t = 0; t < item_.tiles; ++t) {
      AscendC::Cast(At<half>(TPosition::VECCALC, kS16 + t * item_.padded * 32, count),
                    At<float>(TPosition::VECCALC, kS32 + t * item_.padded * 64, count),
                    AscendC::RoundMode::CAST_RINT, count);
    }
    AscendC::SetFlag<HardEvent::V_MTE3>(0);
    AscendC::WaitFlag<HardEvent::V_MTE3>(0);
    for (uint32_t t = 0; t < item_.tiles; ++t) {
      AscendC::DataCopy(At<half>(TPosition::A1, kSAt310 + t * item_.padded * 32, count),
                        At<half>(TPosition::VECCALC, kS16 + t * item_.padded * 32, count), count);
    }
    AscendC::SetFlag<HardEvent::MTE3_MTE1>(0);
  }

  __aicore__ inline void Expand() {
    AscendC::WaitFlag<HardEvent::MTE3_MTE1>(0);
    AscendC::WaitFlag<HardEvent::M_MTE1>(0);
    for (uint32_t m = 0; m < item_.members; ++m) {
      const uint32_t member = item_.members_at + m * kMemberWords;
      const uint64_t span = Word(member + kMemberSpan);
      const uint32_t tile = FieldOf(span, 2);
      const uint32_t tiles = FieldOf(span, 3);
      for (uint32_t block = 0; block < item_.row_blocks; ++block) {
        Fractals load;
        load.to = (tile * item_.row_blocks + block * tiles) * kFractalBytes;
        load.from = kSAt310 + (tile * item_.row_blocks + block) * kFractalBytes;
        load.count = tiles;
        load.stride = item_.row_blocks;
        Load<half>(TPosition::A2, load);
      }
    }
    // The last chunk's flag tells that S may be overwritten.
    AscendC::SetFlag<HardEvent::M_MTE1>(0);
    for (uint32_t m = 0; m < item_.members; ++m) {
      const uint32_t member = item_.members_at + m * kMemberWords;
      const uint64_t span = Word(member + kMemberSpan);
      const uint32_t chunk = FieldOf(Word(member + kMemberChunk), 0);
      for (uint32_t begin = item_.column_begin; begin < item_.column_end; begin += chunk) {
        ExpandChunk(span, begin, Least(chunk, item_.column_end - begin));
      }
    }
  }

  __aicore__ inline void ExpandChunk(uint64_t span, uint32_t begin, uint32_t columns) {
    const uint32_t tile = FieldOf(span, 2);
    const uint32_t tiles = FieldOf(span, 3);
    const uint32_t fractals = columns / kFractal;
    AscendC::WaitFlag<HardEvent::MTE1_MTE2>(0);
    for (uint32_t t = 0; t < tiles; ++t) {
      const uint32_t word = item_.tiles_at + (tile + t) * kTileWords;
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
    Load<half>(TPosition::B2, 0, kWeightsAt310, tiles * fractals);
    AscendC::SetFlag<HardEvent::MTE1_MTE2>(0);
    AscendC::SetFlag<HardEvent::MTE1_M>(0);
    AscendC::WaitFlag<HardEvent::MTE1_M>(0);
    AscendC::WaitFlag<HardEvent::V_M>(0);
    Product product;
    product.to = kYL0C310;
    product.a = tile * item_.row_blocks * kFractalBytes;
    product.rows = item_.padded;
    product.columns = columns;
    product.inner = tiles * kFractal;
    product.first = true;
    Multiply<half>(product);
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
      const uint64_t run = Word(item_.runs_at + r * kRunWords);
      const uint32_t count = FieldOf(run, 3);
      AscendC::DataCopyParams params;
      params.blockCount = static_cast<uint16_t>(count);
      params.blockLen = static_cast<uint16_t>(columns / kFractal);
      params.srcStride = static_cast<uint16_t>((item_.pitch - columns) / kFractal);
      AscendC::DataCopy(
          At<half>(TPosition::VECCALC, kY16 + FieldOf(run, 2) * columns * 2, count * columns),
          y_[static_cast<uint64_t>(static_cast<uint32_t>(run)) * item_.pitch + begin], params);
    }
  }

  // y + delta in fp32, row by row: the delta's row lies in pieces of 16 columns.
  __aicore__ inline void AddY(uint64_t span, uint32_t columns) {
    const uint64_t first = Word(item_.runs_at + FieldOf(span, 0) * kRunWords);
    const uint64_t last = Word(item_.runs_at + (FieldOf(span, 1) - 1) * kRunWords);
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
    params.src1RepStride = static_cast<uint8_t>(item_.padded * 2);
    for (uint32_t row = row_begin; row < row_end; ++row) {
      const AscendC::LocalTensor<float> y =
          At<float>(TPosition::VECCALC, kY32 + row * columns * 4, columns);
      AscendC::Add(y, y,
                   At<float>(TPosition::VECCALC, kDelta + row * 64,
                             (columns / kFractal - 1) * item_.padded * kFractal + kFractal),
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
      const uint64_t run = Word(item_.runs_at + r * kRunWords);
      const uint32_t count = FieldOf(run, 3);
      AscendC::DataCopyParams params;
      params.blockCount = static_cast<uint16_t>(count);
      params.blockLen = static_cast<uint16_t>(columns / kFractal);
      params.dstStride = static_cast<uint16_t>((item_.pitch - columns) / kFractal);
      AscendC::DataCopy(
          y_[static_cast<uint64_t>(static_cast<uint32_t>(run)) * item_.pitch + begin],
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
  Item item_;
};

}  // namespace ascend
}  // namespace lorica

extern "C" __global__ __aicore__ void lora_linear_310(GM_ADDR x, GM_ADDR program,
                                                      GM_ADDR identity) {
  lorica::ascend::LoraLinear310 op;
  op.Run(x, program);
}
