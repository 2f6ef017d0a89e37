// The fused multi-adapter operator for arch 2201 (Ascend 910B, A3): y[rows] += (x * A^T) * B^T for
// all adapters of a step in one launch, on the cube cores alone; no core waits for another.
// lora_linear_cube.h says how.
#include "lorica/kernels/ascend/lora_linear_cube.h"

extern "C" __global__ __aicore__ void lora_linear_f16(GM_ADDR x, GM_ADDR program,
                                                      GM_ADDR identity) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
  lorica::ascend::LoraLinear<half, half, lorica::ascend::Residual::kFused,
                             lorica::ascend::Form::kWhole>
      op;
  op.Run(x, program, identity);
}

extern "C" __global__ __aicore__ void lora_linear_bf16(GM_ADDR x, GM_ADDR program,
                                                       GM_ADDR identity) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
  lorica::ascend::LoraLinear<bfloat16_t, bfloat16_t, lorica::ascend::Residual::kFused,
                             lorica::ascend::Form::kWhole>
      op;
  op.Run(x, program, identity);
}

// The residual by an atomic add: y is rounded twice where it has 16 bits, once in fp32.
extern "C" __global__ __aicore__ void lora_linear_f16_atomic(GM_ADDR x, GM_ADDR program,
                                                             GM_ADDR identity) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
  lorica::ascend::LoraLinear<half, half, lorica::ascend::Residual::kAtomic,
                             lorica::ascend::Form::kWhole>
      op;
  op.Run(x, program, identity);
}

extern "C" __global__ __aicore__ void lora_linear_bf16_atomic(GM_ADDR x, GM_ADDR program,
                                                              GM_ADDR identity) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
  lorica::ascend::LoraLinear<bfloat16_t, bfloat16_t, lorica::ascend::Residual::kAtomic,
                             lorica::ascend::Form::kWhole>
      op;
  op.Run(x, program, identity);
}

extern "C" __global__ __aicore__ void lora_linear_f16_f32(GM_ADDR x, GM_ADDR program,
                                                          GM_ADDR identity) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
  lorica::ascend::LoraLinear<half, float, lorica::ascend::Residual::kAtomic,
                             lorica::ascend::Form::kWhole>
      op;
  op.Run(x, program, identity);
}

extern "C" __global__ __aicore__ void lora_linear_bf16_f32(GM_ADDR x, GM_ADDR program,
                                                           GM_ADDR identity) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
  lorica::ascend::LoraLinear<bfloat16_t, float, lorica::ascend::Residual::kAtomic,
                             lorica::ascend::Form::kWhole>
      op;
  op.Run(x, program, identity);
}
