// The base product y = x * W^T in fp32 on the cube cores of arch 2201: plain tiles of 128 x 128,
// every path double-buffered, panels of columns dealt out in turn. What a linear layer does without
// adapters; the AI Core model runs whole networks with it.
//
// Flags are those of lora_linear.cpp: MTE2_MTE1 / MTE1_MTE2 0-1 for x and W together; MTE1_M and
// M_MTE1 0-1; M_FIX and FIX_M 0-1.
#include "lorica/kernels/ascend/base_linear.h"

#include "kernel_operator.h"
#include "lorica/kernels/ascend/lora_program.h"

namespace lorica {
namespace ascend {

using AscendC::HardEvent;
using AscendC::TPosition;

constexpr uint32_t kBaseBlock = 256;  // inputs of one copy
constexpr uint32_t kBaseXBytes = kMaxRows * kBaseBlock * 2;
constexpr uint32_t kBaseWBytes = kBasePanel * kBaseBlock * 2;
constexpr uint32_t kBaseWAt = 2 * kBaseXBytes;
constexpr uint32_t kBaseHalf = 32768;
constexpr uint32_t kBaseSumBytes = kMaxRows * kBasePanel * 4;

template <typename T>
class BaseLinear {
 public:
  __aicore__ inline void Run(GM_ADDR x, GM_ADDR w, GM_ADDR y, GM_ADDR program) {
    AscendC::GlobalTensor<uint32_t> words;
    words.SetGlobalBuffer(reinterpret_cast<__gm__ uint32_t*>(program));
    x_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x));
    w_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(w));
    y_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y));
    const uint32_t cores = words.GetValue(kBaseCores);
    const uint32_t rows = words.GetValue(kBaseRows);
    inner_ = words.GetValue(kBaseInner);
    columns_ = words.GetValue(kBaseColumns);
    for (uint32_t i = 0; i < 2; ++i) {
      AscendC::SetFlag<HardEvent::MTE1_MTE2>(i);
      AscendC::SetFlag<HardEvent::M_MTE1>(i);
      AscendC::SetFlag<HardEvent::FIX_M>(i);
    }
    for (uint32_t at = static_cast<uint32_t>(AscendC::GetBlockIdx()) * kBasePanel; at < columns_;
         at += cores * kBasePanel) {
      for (uint32_t row = 0; row < rows; row += kMaxRows) {
        Tile(row, Least(kMaxRows, rows - row), at, Least(kBasePanel, columns_ - at));
      }
    }
    for (uint32_t i = 0; i < 2; ++i) {
      AscendC::WaitFlag<HardEvent::MTE1_MTE2>(i);
      AscendC::WaitFlag<HardEvent::M_MTE1>(i);
      AscendC::WaitFlag<HardEvent::FIX_M>(i);
    }
  }

 private:
  __aicore__ static inline uint32_t Least(uint32_t a, uint32_t b) { return a < b ? a : b; }

  __aicore__ inline void Tile(uint32_t row, uint32_t rows, uint32_t column, uint32_t columns) {
    const uint32_t blocks = (rows + kFractal - 1) / kFractal;
    const uint32_t sum = (sum_turn_ & 1) * kBaseSumBytes;
    const uint32_t sum_flag = sum_turn_++ & 1;
    AscendC::WaitFlag<HardEvent::FIX_M>(sum_flag);
    for (uint32_t k = 0; k < inner_; k += kBaseBlock) {
      const uint32_t fractals = Least(kBaseBlock, inner_ - k) / kFractal;
      const uint32_t turn = l1_turn_++ & 1;
      AscendC::WaitFlag<HardEvent::MTE1_MTE2>(turn);
      Copy(turn, row, rows, blocks, column, columns, k, fractals);
      AscendC::SetFlag<HardEvent::MTE2_MTE1>(turn);
      AscendC::WaitFlag<HardEvent::MTE2_MTE1>(turn);
      for (uint32_t at = 0; at < fractals; at += kStep / kFractal) {
        Step(turn, blocks, columns, at, Least(kStep / kFractal, fractals - at), sum,
             k == 0 && at == 0);
      }
      AscendC::SetFlag<HardEvent::MTE1_MTE2>(turn);
    }
    AscendC::SetFlag<HardEvent::M_FIX>(sum_flag);
    AscendC::WaitFlag<HardEvent::M_FIX>(sum_flag);
    AscendC::FixpipeParamsV220 params;
    params.nSize = static_cast<uint16_t>(columns);
    params.mSize = static_cast<uint16_t>(rows);
    params.srcStride = static_cast<uint16_t>(blocks * kFractal);
    params.dstStride = columns_;
    params.quantPre = QuantMode_t::NoQuant;
    AscendC::Fixpipe<float, float, AscendC::CFG_ROW_MAJOR>(
        y_[static_cast<uint64_t>(row) * columns_ + column],
        AscendC::LocalTensor<float>(TPosition::CO1, sum, blocks * kFractal * columns), params);
    AscendC::SetFlag<HardEvent::FIX_M>(sum_flag);
  }

  __aicore__ inline void Copy(uint32_t turn, uint32_t row, uint32_t rows, uint32_t blocks,
                              uint32_t column, uint32_t columns, uint32_t k, uint32_t fractals) {
    AscendC::Nd2NzParams params;
    params.nValue = static_cast<uint16_t>(rows);
    params.dValue = static_cast<uint16_t>(fractals * kFractal);
    params.srcDValue = static_cast<uint16_t>(inner_);
    params.dstNzC0Stride = static_cast<uint16_t>(blocks * kFractal);
    params.dstNzNStride = 1;
    AscendC::DataCopy(AscendC::LocalTensor<T>(TPosition::A1, turn * kBaseXBytes,
                                              fractals * blocks * kFractalElements),
                      x_[static_cast<uint64_t>(row) * inner_ + k], params);
    const uint32_t elements = fractals * kFractal * columns;
    AscendC::DataCopy(
        AscendC::LocalTensor<T>(TPosition::B1, kBaseWAt + turn * kBaseWBytes, elements),
        w_[static_cast<uint64_t>(column) * inner_ + static_cast<uint64_t>(k) * columns], elements);
  }

  __aicore__ inline void Step(uint32_t turn, uint32_t blocks, uint32_t columns, uint32_t at,
                              uint32_t fractals, uint32_t sum, bool first) {
    const uint32_t half = l0_turn_++ & 1;
    AscendC::WaitFlag<HardEvent::M_MTE1>(half);
    AscendC::LoadData2DParams load;
    load.startIndex = 0;
    load.repeatTimes = static_cast<uint8_t>(fractals * columns / kFractal);
    load.srcStride = 1;
    load.dstGap = 0;
    load.ifTranspose = false;
    const uint32_t elements = fractals * kFractal * columns;
    AscendC::LoadData(
        AscendC::LocalTensor<T>(TPosition::B2, half * kBaseHalf, elements),
        AscendC::LocalTensor<T>(
            TPosition::B1, kBaseWAt + turn * kBaseWBytes + at * columns * kFractal * 2, elements),
        load);
    for (uint32_t block = 0; block < blocks; ++block) {
      load.startIndex = static_cast<uint16_t>(at * blocks + block);
      load.repeatTimes = static_cast<uint8_t>(fractals);
      load.srcStride = static_cast<uint16_t>(blocks);
      AscendC::LoadData(AscendC::LocalTensor<T>(TPosition::A2,
                                                half * kBaseHalf + block * fractals * kFractalBytes,
                                                fractals * kFractalElements),
                        AscendC::LocalTensor<T>(TPosition::A1, turn * kBaseXBytes, kBaseXBytes / 2),
                        load);
    }
    AscendC::SetFlag<HardEvent::MTE1_M>(half);
    AscendC::WaitFlag<HardEvent::MTE1_M>(half);
    // Needed below ten 16 x 16 tiles; above, the unit keeps the order by itself.
    if (!first) AscendC::PipeBarrier<PIPE_M>();
    AscendC::MmadParams params;
    params.m = static_cast<uint16_t>(blocks * kFractal);
    params.n = static_cast<uint16_t>(columns);
    params.k = static_cast<uint16_t>(fractals * kFractal);
    params.cmatrixInitVal = first;
    AscendC::Mmad(AscendC::LocalTensor<float>(TPosition::CO1, sum, blocks * kFractal * columns),
                  AscendC::LocalTensor<T>(TPosition::A2, half * kBaseHalf,
                                          blocks * fractals * kFractalElements),
                  AscendC::LocalTensor<T>(TPosition::B2, half * kBaseHalf, elements), params);
    AscendC::SetFlag<HardEvent::M_MTE1>(half);
  }

  AscendC::GlobalTensor<T> x_, w_;
  AscendC::GlobalTensor<float> y_;
  uint32_t inner_ = 0;
  uint32_t columns_ = 0;
  uint32_t l1_turn_ = 0;
  uint32_t l0_turn_ = 0;
  uint32_t sum_turn_ = 0;
};

}  // namespace ascend
}  // namespace lorica

extern "C" __global__ __aicore__ void base_linear_f16(GM_ADDR x, GM_ADDR w, GM_ADDR y,
                                                      GM_ADDR program) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
  lorica::ascend::BaseLinear<half> op;
  op.Run(x, w, y, program);
}

extern "C" __global__ __aicore__ void base_linear_bf16(GM_ADDR x, GM_ADDR w, GM_ADDR y,
                                                       GM_ADDR program) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
  lorica::ascend::BaseLinear<bfloat16_t> op;
  op.Run(x, w, y, program);
}
