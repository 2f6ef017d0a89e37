// The kernels' entry points as ordinary C++ sees them, when they are compiled for the AI Core
// model: arguments are addresses in registered memory. Simulator::Launch calls one per core.
#pragma once

#include <cstdint>

extern "C" {
// x [rows, K], program (lora_program.h), identity 16 x 16; y is named by the program.
void lora_linear_f16(uint8_t* x, uint8_t* program, uint8_t* identity);
void lora_linear_bf16(uint8_t* x, uint8_t* program, uint8_t* identity);
void lora_linear_f16_atomic(uint8_t* x, uint8_t* program, uint8_t* identity);
void lora_linear_bf16_atomic(uint8_t* x, uint8_t* program, uint8_t* identity);
void lora_linear_f16_f32(uint8_t* x, uint8_t* program, uint8_t* identity);
void lora_linear_bf16_f32(uint8_t* x, uint8_t* program, uint8_t* identity);
// The same of split programs, KernelType::kMixAic1_0, all blocks on cores at once.
void lora_linear_split_f16(uint8_t* x, uint8_t* program, uint8_t* identity);
void lora_linear_split_bf16(uint8_t* x, uint8_t* program, uint8_t* identity);
void lora_linear_split_f16_atomic(uint8_t* x, uint8_t* program, uint8_t* identity);
void lora_linear_split_bf16_atomic(uint8_t* x, uint8_t* program, uint8_t* identity);
void lora_linear_split_f16_f32(uint8_t* x, uint8_t* program, uint8_t* identity);
void lora_linear_split_bf16_f32(uint8_t* x, uint8_t* program, uint8_t* identity);
// Arch 2002; `identity` is not read.
void lora_linear_310(uint8_t* x, uint8_t* program, uint8_t* identity);
// vector_baseline.h; s is [tokens, 64] of fp32.
void lora_shrink_vector(uint8_t* x, uint8_t* program, uint8_t* s);
void lora_expand_vector(uint8_t* y, uint8_t* program, uint8_t* s);
// base_linear.h; y is [rows, N] of fp32.
void base_linear_f16(uint8_t* x, uint8_t* w, uint8_t* y, uint8_t* program);
void base_linear_bf16(uint8_t* x, uint8_t* w, uint8_t* y, uint8_t* program);
}
