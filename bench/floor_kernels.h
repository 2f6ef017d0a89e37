// The two loops behind Floor, for each instruction set.
#pragma once

#include <cstdint>
#include <string_view>

namespace lorica::bench {

struct FloorKernels {
  // Reads `floats` (a multiple of 1024) in eight streams; the sum keeps the loads alive.
  float (*read)(const float* data, int64_t floats) = nullptr;
  // `rounds` rounds of multiply-adds on registers; FloorFlops(isa) flops each.
  float (*multiply)(int64_t rounds) = nullptr;
  int64_t flops_per_round = 0;
};
// Null functions for a set that was not compiled.
FloorKernels FloorKernelsFor(std::string_view isa);

}  // namespace lorica::bench
