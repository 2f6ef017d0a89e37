// How weights and activations become small integers: one definition that every backend follows, so
// that what a layout holds does not depend on who packed it. Pure functions; any thread.
//
// A weight is d * (q - zero) + m, over blocks of 32 along k:
//   kI8    one d (f32) a row, zero 128: `--weights int8`
//   kQ8_0  d (f16) a block, zero 128
//   kQ4_0  d (f16) a block, zero 8
//   kQ4_1  d and m (f16) a block, zero 0: `--weights q4`
//   kQ4_K  d and m a block, each a super-block's f16 times 6 bits of the block, zero 0
//   kQ6_K  d a half of a block, a super-block's f16 times int8, zero 32
// All but the first hold what ggml's blocks of these names hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lorica/base/dtype.h"
#include "lorica/base/super_block.h"
#include "lorica/kernels/params.h"

namespace lorica::kernels {

inline constexpr int64_t kQuantBlock = 32;
constexpr int64_t QuantBlocks(int64_t k) { return (k + kQuantBlock - 1) / kQuantBlock; }
constexpr bool IsQuantized(DType storage) {
  return storage == DType::kI8 || storage == DType::kQ8_0 || storage == DType::kQ4_0 ||
         storage == DType::kQ4_1 || IsSuperBlocked(storage);
}
constexpr bool IsFourBit(DType storage) {
  return storage == DType::kQ4_0 || storage == DType::kQ4_1 || storage == DType::kQ4_K;
}
constexpr bool HasMinimum(DType storage) {
  return storage == DType::kQ4_1 || storage == DType::kQ4_K;
}
constexpr int32_t QuantZero(DType storage) {
  if (HasMinimum(storage)) return 0;
  return storage == DType::kQ4_0 ? 8 : storage == DType::kQ6_K ? 32 : 128;
}

// A row of W, [blocks * 32] long: what is past K is zero.
struct QuantRow {
  std::vector<uint8_t> q;
  std::vector<float> d;  // of each block; one for kI8; of each super-block for the K types
  std::vector<float> m;  // likewise; where there is a minimum
  // Of the K types only: of each block (kQ4_K) or half of one (kQ6_K), and of each block.
  std::vector<int8_t> sub_d, sub_m;
};

// Rounds to the nearest, ties to even.
void QuantizeRow(DType storage, std::span<const float> row, QuantRow* out);
// Row n of `source`: its own blocks where it is stored as `storage`, else rounded to it.
// `scratch` is K floats.
void ReadQuantRow(const RowSource& source, int64_t n, DType storage, std::span<float> scratch,
                  QuantRow* out);
// w[k] of a row.
void DequantizeRow(DType storage, const QuantRow& quant, std::span<float> row);

// Activations, by row and block: x = scale * q with q in [-127, 127], the greatest value at 127. A
// block of nothing but (nearly) zeros has scale 0, and one with a NaN or an infinity has scale NaN,
// so that all outputs of the row say so. One scale a row would cost SmolLM2 2.8 % of perplexity.
struct InputScale {
  float scale = 0.0f;
  float inverse = 0.0f;  // q = x * inverse, to the nearest, ties to even
};
// `greatest`: the bits of the greatest magnitude of the block.
InputScale ScaleOfInput(uint32_t greatest);

}  // namespace lorica::kernels
