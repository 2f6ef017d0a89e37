// The loops behind Floor, for each instruction set.
#pragma once

#include <cstdint>
#include <string_view>

namespace lorica::bench {

struct FloorKernels {
  // Reads `floats` (a multiple of 1024) in eight streams; the sum keeps the loads alive.
  float (*read)(const float* data, int64_t floats) = nullptr;
  // `rounds` rounds of multiply-adds on registers.
  float (*multiply)(int64_t rounds) = nullptr;
  int64_t flops_per_round = 0;
};
// Null functions for a set that was not compiled.
FloorKernels FloorKernelsFor(std::string_view isa);

// The same on the bf16 dot of AVX512-BF16, kDotFlopsPerRound flops a round. The processor must
// have it.
inline constexpr int64_t kDotFlopsPerRound = 10 * 16 * 4;
float MultiplyByDot(int64_t rounds);

// Products of bytes, added up in 16 or 32 bits: maddubs, or VNNI, which the processor must have.
struct ByteFloor {
  float (*multiply)(int64_t rounds) = nullptr;  // null: of this set there is none
  int64_t operations_per_round = 0;             // 2 a multiply-add
};
ByteFloor ByteFloorFor(std::string_view isa);

}  // namespace lorica::bench
