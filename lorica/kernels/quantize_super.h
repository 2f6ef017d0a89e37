// Rows in ggml's super-blocks (base/super_block.h) as the kernels' QuantRow. Pure functions; any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lorica/kernels/quantize.h"

namespace lorica::kernels {

// The parts of QuantizeRow, ReadQuantRow and DequantizeRow that are of the K types. Only a row read
// from a file is whole super-blocks.
void QuantizeSuperBlocks(DType storage, std::span<const float> row, QuantRow* out);
void ReadSuperBlocks(DType storage, const std::byte* stored, int64_t k, QuantRow* out);
// What multiplies q - zero at k, and what is added to it: exact in f32.
struct SubScale {
  float d = 0.0f;
  float m = 0.0f;
};
SubScale SubScaleAt(DType storage, const QuantRow& quant, size_t k);

}  // namespace lorica::kernels
