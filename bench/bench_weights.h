// Random weights for benchmarks, made row by row as PackWeight asks for them.
#pragma once

#include <cstdint>

#include "lorica/kernels/params.h"

namespace lorica::bench {

// Cheap numbers in [-0.5, 0.5), the same for the same (seed, row).
class RandomRows : public kernels::RowSource {
 public:
  RandomRows(int64_t n, int64_t k, uint32_t seed) : n_(n), k_(k), seed_(seed) {}
  int64_t n() const override { return n_; }
  int64_t k() const override { return k_; }
  void ReadRow(int64_t n, std::span<float> row) const override {
    uint32_t state = seed_ * 2654435761u + static_cast<uint32_t>(n) * 40503u + 1u;
    for (float& value : row) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
    }
  }

 private:
  int64_t n_;
  int64_t k_;
  uint32_t seed_;
};

}  // namespace lorica::bench
