// The operator of lora_linear.cpp with the shrink cut along k over all cores, which meet once: no
// core repeats another's work, S is scaled in fp32, and B is the file's. The launch must have all
// its blocks on cores at once. lora_linear_cube.h says how.
#include "lorica/kernels/ascend/lora_linear_cube.h"

extern "C" __global__ __aicore__ void lora_linear_split_f16(GM_ADDR x, GM_ADDR program,
                                                            GM_ADDR identity) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_0);
  lorica::ascend::LoraLinear<half, half, lorica::ascend::Residual::kFused,
                             lorica::ascend::Form::kSplit>
      op;
  op.Run(x, program, identity);
}

extern "C" __global__ __aicore__ void lora_linear_split_bf16(GM_ADDR x, GM_ADDR program,
                                                             GM_ADDR identity) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_0);
  lorica::ascend::LoraLinear<bfloat16_t, bfloat16_t, lorica::ascend::Residual::kFused,
                             lorica::ascend::Form::kSplit>
      op;
  op.Run(x, program, identity);
}

// The residual by an atomic add: y is rounded twice where it has 16 bits, once in fp32.
extern "C" __global__ __aicore__ void lora_linear_split_f16_atomic(GM_ADDR x, GM_ADDR program,
                                                                   GM_ADDR identity) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_0);
  lorica::ascend::LoraLinear<half, half, lorica::ascend::Residual::kAtomic,
                             lorica::ascend::Form::kSplit>
      op;
  op.Run(x, program, identity);
}

extern "C" __global__ __aicore__ void lora_linear_split_bf16_atomic(GM_ADDR x, GM_ADDR program,
                                                                    GM_ADDR identity) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_0);
  lorica::ascend::LoraLinear<bfloat16_t, bfloat16_t, lorica::ascend::Residual::kAtomic,
                             lorica::ascend::Form::kSplit>
      op;
  op.Run(x, program, identity);
}

extern "C" __global__ __aicore__ void lora_linear_split_f16_f32(GM_ADDR x, GM_ADDR program,
                                                                GM_ADDR identity) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_0);
  lorica::ascend::LoraLinear<half, float, lorica::ascend::Residual::kAtomic,
                             lorica::ascend::Form::kSplit>
      op;
  op.Run(x, program, identity);
}

extern "C" __global__ __aicore__ void lora_linear_split_bf16_f32(GM_ADDR x, GM_ADDR program,
                                                                 GM_ADDR identity) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_0);
  lorica::ascend::LoraLinear<bfloat16_t, float, lorica::ascend::Residual::kAtomic,
                             lorica::ascend::Form::kSplit>
      op;
  op.Run(x, program, identity);
}
