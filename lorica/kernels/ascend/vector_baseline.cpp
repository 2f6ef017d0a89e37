// An opponent of lora_linear.cpp: the way that serving systems on this hardware take today, written
// anew from its description. Vector cores, two launches a slice; a core takes whole tokens, one
// after another, and reads the adapter's weights again for each; S passes through memory in fp32.
// fp16, ranks 8, 16, 32, 64.
#include "lorica/kernels/ascend/vector_baseline.h"

#include "kernel_operator.h"

namespace lorica {
namespace ascend {

using AscendC::QuePosition;

// Inputs of one copy of x and of a row of A.
constexpr uint32_t kInnerTile = 4096;
// Elements of B of one copy.
constexpr uint32_t kWeightTile = 8192;

__aicore__ inline uint64_t AddressAt(AscendC::GlobalTensor<uint32_t>& words, uint32_t at) {
  return static_cast<uint64_t>(words.GetValue(at)) |
         (static_cast<uint64_t>(words.GetValue(at + 1)) << 32);
}

class ShrinkVector {
 public:
  __aicore__ inline void Run(GM_ADDR x, GM_ADDR program, GM_ADDR s) {
    words_.SetGlobalBuffer(reinterpret_cast<__gm__ uint32_t*>(program));
    numbers_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(program));
    x_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(x));
    s_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(s));
    inner_ = words_.GetValue(kVectorInner);
    pipe_.InitBuffer(x_in_, 1, kInnerTile * 2);
    pipe_.InitBuffer(a_in_, 2, kInnerTile * 2);
    pipe_.InitBuffer(s_out_, 1, kVectorMaxRank * 4);
    pipe_.InitBuffer(x_wide_, kInnerTile * 4);
    pipe_.InitBuffer(a_wide_, kInnerTile * 4);
    pipe_.InitBuffer(work_, kInnerTile * 4);
    pipe_.InitBuffer(sums_, kVectorMaxRank * 32);
    pipe_.InitBuffer(part_, kVectorMaxRank * 32);
    const uint32_t tokens = words_.GetValue(kVectorTokens);
    const uint32_t per_core = words_.GetValue(kVectorPerCore);
    const uint32_t begin = static_cast<uint32_t>(AscendC::GetBlockIdx()) * per_core;
    for (uint32_t token = begin; token < begin + per_core && token < tokens; ++token) Token(token);
  }

 private:
  __aicore__ inline void Token(uint32_t token) {
    const uint32_t at = kVectorHead + token * kTokenWords;
    const uint32_t rank = words_.GetValue(at + kTokenRank);
    a_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(AddressAt(words_, at + kTokenALow)));
    const uint64_t row = words_.GetValue(at + kTokenRow);
    const AscendC::LocalTensor<float> sums = sums_.Get<float>();
    const AscendC::LocalTensor<float> part = part_.Get<float>();
    AscendC::Duplicate<float>(sums, 0.0f, static_cast<int32_t>(rank * 8));
    AscendC::Duplicate<float>(part, 0.0f, static_cast<int32_t>(rank * 8));
    for (uint32_t k = 0; k < inner_; k += kInnerTile) {
      const uint32_t count = inner_ - k < kInnerTile ? inner_ - k : kInnerTile;
      LoadX(row * inner_ + k, count);
      for (uint32_t r = 0; r < rank; ++r) Dot(part, r, k, count);
      AscendC::Add(sums, sums, part, static_cast<int32_t>(rank * 8));
      AscendC::PipeBarrier<PIPE_V>();
    }
    AscendC::LocalTensor<float> out = s_out_.AllocTensor<float>();
    // Seven of a block's eight lanes are zero.
    AscendC::BlockReduceSum<float>(out, sums, static_cast<int32_t>(rank / 8), 64, 1, 1, 8);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Muls<float>(out, out, numbers_.GetValue(at + kTokenScale), static_cast<int32_t>(rank));
    s_out_.EnQue(out);
    AscendC::LocalTensor<float> done = s_out_.DeQue<float>();
    AscendC::DataCopy(s_[token * kVectorMaxRank], done, rank);
    s_out_.FreeTensor(done);
  }

  __aicore__ inline void LoadX(uint64_t at, uint32_t count) {
    AscendC::LocalTensor<half> in = x_in_.AllocTensor<half>();
    AscendC::DataCopy(in, x_[at], count);
    x_in_.EnQue(in);
    AscendC::LocalTensor<half> x = x_in_.DeQue<half>();
    AscendC::Cast(x_wide_.Get<float>(), x, AscendC::RoundMode::CAST_NONE, count);
    x_in_.FreeTensor(x);
  }

  // part[r * 8] = x * A[r], over one tile.
  __aicore__ inline void Dot(const AscendC::LocalTensor<float>& part, uint32_t r, uint32_t k,
                             uint32_t count) {
    AscendC::LocalTensor<half> in = a_in_.AllocTensor<half>();
    AscendC::DataCopy(in, a_[static_cast<uint64_t>(r) * inner_ + k], count);
    a_in_.EnQue(in);
    AscendC::LocalTensor<half> a = a_in_.DeQue<half>();
    const AscendC::LocalTensor<float> wide = a_wide_.Get<float>();
    AscendC::Cast(wide, a, AscendC::RoundMode::CAST_NONE, count);
    AscendC::PipeBarrier<PIPE_V>();
    a_in_.FreeTensor(a);
    AscendC::Mul(wide, wide, x_wide_.Get<float>(), static_cast<int32_t>(count));
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::ReduceSum<float>(part[r * 8], wide, work_.Get<float>(), static_cast<int32_t>(count));
    AscendC::PipeBarrier<PIPE_V>();
  }

  AscendC::TPipe pipe_;
  AscendC::TQue<QuePosition::VECIN, 1> x_in_;
  AscendC::TQue<QuePosition::VECIN, 2> a_in_;
  AscendC::TQue<QuePosition::VECOUT, 1> s_out_;
  AscendC::TBuf<QuePosition::VECCALC> x_wide_, a_wide_, work_, sums_, part_;
  AscendC::GlobalTensor<uint32_t> words_;
  AscendC::GlobalTensor<float> numbers_, s_;
  AscendC::GlobalTensor<half> x_, a_;
  uint32_t inner_ = 0;
};

class ExpandVector {
 public:
  __aicore__ inline void Run(GM_ADDR y, GM_ADDR program, GM_ADDR s) {
    words_.SetGlobalBuffer(reinterpret_cast<__gm__ uint32_t*>(program));
    y_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(y));
    s_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(s));
    pitch_ = words_.GetValue(kVectorPitch);
    pipe_.InitBuffer(s_in_, 1, kVectorMaxRank * 4);
    pipe_.InitBuffer(b_in_, 2, kWeightTile * 2);
    pipe_.InitBuffer(y_in_, 2, kWeightTile / 8 * 2);
    pipe_.InitBuffer(y_out_, 2, kWeightTile / 8 * 2);
    pipe_.InitBuffer(wide_, kWeightTile * 4);
    pipe_.InitBuffer(y_wide_, kWeightTile / 8 * 4);
    pipe_.InitBuffer(lanes_, 256);
    const uint32_t tokens = words_.GetValue(kVectorTokens);
    const uint32_t per_core = words_.GetValue(kVectorPerCore);
    const uint32_t begin = static_cast<uint32_t>(AscendC::GetBlockIdx()) * per_core;
    for (uint32_t token = begin; token < begin + per_core && token < tokens; ++token) Token(token);
  }

 private:
  __aicore__ inline void Token(uint32_t token) {
    const uint32_t at = kVectorHead + token * kTokenWords;
    const uint32_t rank = words_.GetValue(at + kTokenRank);
    b_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(AddressAt(words_, at + kTokenBLow)));
    const uint64_t row = words_.GetValue(at + kTokenRow);
    LoadS(token, rank);
    const uint32_t step = kWeightTile / rank;
    for (uint32_t n = 0; n < pitch_; n += step) {
      const uint32_t columns = pitch_ - n < step ? pitch_ - n : step;
      // The fewer elements of y than its buffer holds, so 1,024 columns are the most.
      Columns(row * pitch_ + n, static_cast<uint64_t>(n) * rank, columns, rank);
    }
  }

  // The rank vector, repeated over the 64 lanes of a repeat.
  __aicore__ inline void LoadS(uint32_t token, uint32_t rank) {
    AscendC::LocalTensor<float> in = s_in_.AllocTensor<float>();
    AscendC::DataCopy(in, s_[token * kVectorMaxRank], rank);
    s_in_.EnQue(in);
    AscendC::LocalTensor<float> s = s_in_.DeQue<float>();
    const AscendC::LocalTensor<float> lanes = lanes_.Get<float>();
    for (uint32_t lane = 0; lane < 64; lane += rank) {
      AscendC::Muls<float>(lanes[lane], s, 1.0f, static_cast<int32_t>(rank));
    }
    s_in_.FreeTensor(s);
  }

  __aicore__ inline void Columns(uint64_t y_at, uint64_t b_at, uint32_t columns, uint32_t rank) {
    const uint32_t elements = columns * rank;
    AscendC::LocalTensor<half> b_new = b_in_.AllocTensor<half>();
    AscendC::DataCopy(b_new, b_[b_at], elements);
    b_in_.EnQue(b_new);
    AscendC::LocalTensor<half> y_new = y_in_.AllocTensor<half>();
    AscendC::DataCopy(y_new, y_[y_at], columns);
    y_in_.EnQue(y_new);

    AscendC::LocalTensor<half> b = b_in_.DeQue<half>();
    const AscendC::LocalTensor<float> wide = wide_.Get<float>();
    AscendC::Cast(wide, b, AscendC::RoundMode::CAST_NONE, elements);
    AscendC::PipeBarrier<PIPE_V>();
    b_in_.FreeTensor(b);
    const AscendC::BinaryRepeatParams every_lane(1, 1, 1, 8, 8, 0);
    AscendC::Mul<float>(wide, wide, lanes_.Get<float>(), 64, static_cast<uint8_t>(elements / 64),
                        every_lane);
    AscendC::PipeBarrier<PIPE_V>();
    Reduce(wide, elements, rank);

    AscendC::LocalTensor<half> y = y_in_.DeQue<half>();
    const AscendC::LocalTensor<float> sum = y_wide_.Get<float>();
    AscendC::Cast(sum, y, AscendC::RoundMode::CAST_NONE, columns);
    AscendC::PipeBarrier<PIPE_V>();
    y_in_.FreeTensor(y);
    AscendC::Add(sum, sum, wide, static_cast<int32_t>(columns));
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::LocalTensor<half> out = y_out_.AllocTensor<half>();
    AscendC::Cast(out, sum, AscendC::RoundMode::CAST_RINT, columns);
    y_out_.EnQue(out);
    AscendC::LocalTensor<half> done = y_out_.DeQue<half>();
    AscendC::DataCopy(y_[y_at], done, columns);
    y_out_.FreeTensor(done);
  }

  // Every `rank` lanes become one: by blocks of 8, then by pairs, or by blocks twice.
  __aicore__ inline void Reduce(const AscendC::LocalTensor<float>& wide, uint32_t elements,
                                uint32_t rank) {
    uint32_t left = elements;
    const uint32_t repeats = (left + 63) / 64;
    AscendC::BlockReduceSum<float>(wide, wide, static_cast<int32_t>(repeats), 64, 1, 1, 8);
    AscendC::PipeBarrier<PIPE_V>();
    left /= 8;
    if (rank == 64) {
      AscendC::BlockReduceSum<float>(wide, wide, static_cast<int32_t>((left + 63) / 64), 64, 1, 1,
                                     8);
    }
    if (rank == 16 || rank == 32) {
      AscendC::PairReduceSum<float>(wide, wide, static_cast<int32_t>((left + 63) / 64), 64, 1, 1,
                                    8);
      AscendC::PipeBarrier<PIPE_V>();
      left /= 2;
    }
    if (rank == 32) {
      AscendC::PairReduceSum<float>(wide, wide, static_cast<int32_t>((left + 63) / 64), 64, 1, 1,
                                    8);
    }
  }

  AscendC::TPipe pipe_;
  AscendC::TQue<QuePosition::VECIN, 1> s_in_;
  AscendC::TQue<QuePosition::VECIN, 2> b_in_, y_in_;
  AscendC::TQue<QuePosition::VECOUT, 2> y_out_;
  AscendC::TBuf<QuePosition::VECCALC> wide_, y_wide_, lanes_;
  AscendC::GlobalTensor<uint32_t> words_;
  AscendC::GlobalTensor<float> s_;
  AscendC::GlobalTensor<half> y_, b_;
  uint32_t pitch_ = 0;
};

}  // namespace ascend
}  // namespace lorica

extern "C" __global__ __aicore__ void lora_shrink_vector(GM_ADDR x, GM_ADDR program, GM_ADDR s) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  lorica::ascend::ShrinkVector op;
  op.Run(x, program, s);
}

extern "C" __global__ __aicore__ void lora_expand_vector(GM_ADDR y, GM_ADDR program, GM_ADDR s) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  lorica::ascend::ExpandVector op;
  op.Run(y, program, s);
}
