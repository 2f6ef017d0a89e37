// The launches of the cube kernels: the only file with <<<>>>. Not built in CI.
#include "lorica/kernels/ascend/base_linear.cpp"
#include "lorica/kernels/ascend/lora_linear.cpp"
#include "lorica/kernels/ascend/lora_linear_split.cpp"

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
    case 5:
      lora_linear_bf16_f32<<<blocks, nullptr, stream>>>(x, program, identity);
      break;
    case 6:
      lora_linear_split_f16<<<blocks, nullptr, stream>>>(x, program, identity);
      break;
    case 7:
      lora_linear_split_bf16<<<blocks, nullptr, stream>>>(x, program, identity);
      break;
    case 8:
      lora_linear_split_f16_f32<<<blocks, nullptr, stream>>>(x, program, identity);
      break;
    default:
      lora_linear_split_bf16_f32<<<blocks, nullptr, stream>>>(x, program, identity);
      break;
  }
}

extern "C" void lorica_launch_base_linear(uint32_t bf16, uint32_t blocks, void* stream, uint8_t* x,
                                          uint8_t* w, uint8_t* y, uint8_t* program) {
  if (bf16 != 0) {
    base_linear_bf16<<<blocks, nullptr, stream>>>(x, w, y, program);
  } else {
    base_linear_f16<<<blocks, nullptr, stream>>>(x, w, y, program);
  }
}
