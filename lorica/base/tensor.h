// Shape and TensorView: a named-by-others, non-owning look at a dense row-major tensor in memory
// of any alignment. Owners are Buffer, MappedFile and the readers; a view must not outlive them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lorica/base/dtype.h"

namespace lorica {

using Shape = std::vector<int64_t>;

// "[32, 64]"
std::string ShapeToString(const Shape& shape);
// Product of the dimensions; 1 for a scalar. The reader has checked it for overflow.
int64_t ElementCount(const Shape& shape);

struct TensorView {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;  // row-major, last dimension dense

  int64_t elements() const { return ElementCount(shape); }
  int64_t bytes() const { return ElementsToBytes(dtype, elements()); }
  // Row r of a [rows, columns] tensor.
  const std::byte* row(int64_t r) const { return data + r * ElementsToBytes(dtype, shape[1]); }
};

}  // namespace lorica
