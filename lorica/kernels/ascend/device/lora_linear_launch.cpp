// The launches of lora_linear.cpp: the only file with <<<>>>. Not built in CI.
#include "lorica/kernels/ascend/lora_linear.cpp"

extern "C" void lorica_launch_lora_linear(uint32_t kernel, uint32_t blocks, void* stream,
                                          uint8_t* x, uint8_t* program, uint8_t* identity) {
  switch (kernel) {
    case 0:
      lora_linear_f16<<<blocks, nullptr, stream>>>(x, program, identity);
      break;
    case 1:
      lora_linear_bf16<<<blocks, nullptr, stream>>>(x, program, identity);
      break;
    case 2:
      lora_linear_f16_atomic<<<blocks, nullptr, stream>>>(x, program, identity);
      break;
    case 3:
      lora_linear_bf16_atomic<<<blocks, nullptr, stream>>>(x, program, identity);
      break;
    case 4:
      lora_linear_f16_f32<<<blocks, nullptr, stream>>>(x, program, identity);
      break;
    default:
      lora_linear_bf16_f32<<<blocks, nullptr, stream>>>(x, program, identity);
      break;
  }
}
