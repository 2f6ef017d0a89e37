// One look at every value of a LoRA factor: is each finite, are all zero, and what is the
// narrowest type that holds them exactly. Pure functions, safe on any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "lorica/base/tensor.h"

namespace lorica::formats {

struct FactorScan {
  std::optional<int64_t> not_finite;  // index of the first NaN or infinity, row-major
  bool all_zero = true;
  // The first of bf16, f16, f32 that keeps each value bit for bit, signed zeros included.
  DType narrowest = DType::kBF16;
};

// `factor` is f32, f16 or bf16, of any alignment. A scan ends at the first value that is not
// finite; the rest of its answer is then of no use.
FactorScan ScanFactor(const TensorView& factor);

}  // namespace lorica::formats
