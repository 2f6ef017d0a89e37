// ggml's K types: super-blocks of 256 weights with one or two f16 scales, whose sub-blocks have
// small integers as scales. Pure functions, safe on any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lorica/base/dtype.h"

namespace lorica {

inline constexpr int64_t kSuperBlock = 256;

constexpr bool IsSuperBlocked(DType dtype) {
  return dtype == DType::kQ4_K || dtype == DType::kQ6_K;
}
// Weights that share a small scale.
constexpr int64_t SubBlockElements(DType dtype) { return dtype == DType::kQ4_K ? 32 : 16; }

// Weight i: (d * sub_d) * (q[i] - 32) for Q6_K, (d * sub_d) * q[i] + m * sub_m for Q4_K, with the
// small scales of its sub-block. Both products of scales are exact in f32.
struct SuperBlock {
  float d = 0.0f;
  float m = 0.0f;  // ggml's dmin, negated
  int8_t sub_d[16] = {};
  int8_t sub_m[8] = {};
  uint8_t q[kSuperBlock] = {};
};
SuperBlock ReadSuperBlock(DType dtype, const std::byte* block);

}  // namespace lorica
