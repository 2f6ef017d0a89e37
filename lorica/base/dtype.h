// Element types of tensors on disk and in memory, ggml's block types included, and exact scalar
// conversions between them. Pure functions, safe on any thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lorica/base/status.h"

namespace lorica {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF64,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kBool,
  kF8E4M3,
  kF8E5M2,
  // Blocks of 32 weights, as ggml lays them out.
  kQ4_0,  // f16 d, 16 bytes of nibbles (low: j, high: j + 16); w = d * (q - 8)
  kQ4_1,  // f16 d, f16 m, 16 bytes of nibbles; w = d * q + m
  kQ8_0,  // f16 d, 32 int8; w = d * q
  // Super-blocks of 256 (super_block.h).
  kQ4_K,
  kQ6_K,
};

std::string_view DTypeName(DType dtype);

// Elements a block: 1 for plain types, 32 or 256 for ggml's.
int64_t BlockElements(DType dtype);
// Bytes a block.
int64_t BlockBytes(DType dtype);
// Bytes of `elements` (a multiple of the block). The caller has checked for overflow.
int64_t ElementsToBytes(DType dtype, int64_t elements);

// True for the types that DequantizeRow reads: F32 F16 BF16 F64 and ggml's blocks.
bool IsFloatOrBlock(DType dtype);

// Reads n elements (a multiple of the block) at `source`, of any alignment, as f32. Exact for
// every type but F64, which is rounded to nearest even.
void DequantizeRow(DType dtype, const std::byte* source, int64_t n, float* destination);

inline float Bf16ToF32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
// Round to nearest even; a NaN stays a (quiet) NaN.
inline uint16_t F32ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
float F16ToF32(uint16_t bits);
// Round to nearest even; overflow gives infinity; subnormals are kept.
uint16_t F32ToF16(float value);

}  // namespace lorica
