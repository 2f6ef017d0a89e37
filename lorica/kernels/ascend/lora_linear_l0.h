// Device code of the operator on both architectures: local tensors by address, L1 -> L0, and one
// product. Free functions; C++17, no standard library.
#pragma once

#include "kernel_operator.h"
#include "lorica/kernels/ascend/lora_program.h"

namespace lorica {
namespace ascend {

using AscendC::HardEvent;
using AscendC::TPosition;

template <typename E>
__aicore__ inline AscendC::LocalTensor<E> At(TPosition where, uint32_t byte, uint32_t elements) {
  return AscendC::LocalTensor<E>(where, byte, elements);
}
__aicore__ inline uint32_t Least(uint32_t a, uint32_t b) { return a < b ? a : b; }

// Fractals that come from L1 to L0: `stride` apart there, `gap` between them here.
struct Fractals {
  uint32_t to = 0;  // bytes
  uint32_t from = 0;
  uint32_t count = 0;
  uint32_t stride = 1;
  uint32_t gap = 0;
};

template <typename E>
__aicore__ inline void Load(TPosition where, const Fractals& f) {
  constexpr uint32_t fractal = kFractalBytes / sizeof(E);
  AscendC::LoadData2DParams load;
  load.startIndex = 0;
  load.repeatTimes = static_cast<uint8_t>(f.count);
  load.srcStride = static_cast<uint16_t>(f.stride);
  load.dstGap = static_cast<uint16_t>(f.gap);
  load.ifTranspose = false;
  const TPosition source = where == TPosition::A2 ? TPosition::A1 : TPosition::B1;
  AscendC::LoadData(At<E>(where, f.to, ((f.count - 1) * (f.gap + 1) + 1) * fractal),
                    At<E>(source, f.from, ((f.count - 1) * f.stride + 1) * fractal), load);
}
template <typename E>
__aicore__ inline void Load(TPosition where, uint32_t to, uint32_t from, uint32_t count) {
  Fractals load;
  load.to = to;
  load.from = from;
  load.count = count;
  Load<E>(where, load);
}

// L0C[rows, columns] (+)= L0A[rows, inner] * L0B[inner, columns]; places in bytes. Rows are padded:
// one row alone would be taken for a vector.
struct Product {
  uint32_t to = 0;
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t rows = 0;
  uint32_t columns = 0;
  uint32_t inner = 0;
  bool first = false;
};

template <typename T>
__aicore__ inline void Multiply(const Product& p) {
  AscendC::MmadParams params;
  params.m = static_cast<uint16_t>(p.rows);
  params.n = static_cast<uint16_t>(p.columns);
  params.k = static_cast<uint16_t>(p.inner);
  params.cmatrixInitVal = p.first;
  AscendC::Mmad(At<float>(TPosition::CO1, p.to, p.rows * p.columns),
                At<T>(TPosition::A2, p.a, p.rows * p.inner),
                At<T>(TPosition::B2, p.b, p.inner * p.columns), params);
}

}  // namespace ascend
}  // namespace lorica
