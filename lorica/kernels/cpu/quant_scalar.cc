#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "lorica/kernels/cpu/quant.h"

#define LORICA_Q
#define LORICA_Q_INLINE inline
#define LORICA_Q_UNROLL

namespace lorica::kernels::cpu {
namespace {

constexpr bool Fits(DType, int rows, int panels) { return rows * panels <= 2; }
constexpr bool kBytesAreSigned = false;
constexpr int64_t PrefetchBytes(int, int) { return 512; }

struct Ints {
  int32_t v[16];
};
struct Floats {
  float v[16];
};
struct Bytes {
  uint8_t v[64];
};
struct Nibbles {
  Bytes low, high;
};
using NibbleSums = Ints;

template <class Out, class Make>
Out Lanes(const Make& make) {
  Out out;
  for (int i = 0; i < 16; ++i) out.v[i] = make(i);
  return out;
}
Ints SplatInts(int32_t value) {
  return Lanes<Ints>([&](int) { return value; });
}
Ints AddInts(const Ints& a, const Ints& b) {
  return Lanes<Ints>([&](int i) { return a.v[i] + b.v[i]; });
}
Floats ToFloats(const Ints& a) {
  return Lanes<Floats>([&](int i) { return static_cast<float>(a.v[i]); });
}
Floats SplatFloats(float value) {
  return Lanes<Floats>([&](int) { return value; });
}
Floats LoadFloats(const float* from) {
  return Lanes<Floats>([&](int i) { return from[i]; });
}
void StoreFloats(const Floats& a, float* to) { std::copy_n(a.v, 16, to); }
Floats AddFloats(const Floats& a, const Floats& b) {
  return Lanes<Floats>([&](int i) { return a.v[i] + b.v[i]; });
}
Floats MulFloats(const Floats& a, const Floats& b) {
  return Lanes<Floats>([&](int i) { return a.v[i] * b.v[i]; });
}
Floats LoadHalves(const std::byte* from) {
  uint16_t bits[16];
  std::memcpy(bits, from, sizeof(bits));
  return Lanes<Floats>([&](int i) { return F16ToF32(bits[i]); });
}

Bytes LoadBytes(const std::byte* row) {
  Bytes out;
  std::memcpy(out.v, row, 64);
  return out;
}
void MulBytes(const Bytes& w, int32_t x, Ints* acc) {
  int8_t xs[4];
  std::memcpy(xs, &x, 4);
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 4; ++k) acc->v[i] += int32_t{w.v[4 * i + k]} * xs[k];
  }
}
Nibbles LoadNibbles(const std::byte* row) {
  Nibbles out;
  for (int i = 0; i < 64; ++i) {
    const auto pair = std::to_integer<uint8_t>(row[i]);
    out.low.v[i] = pair & 15u;
    out.high.v[i] = static_cast<uint8_t>(pair >> 4);
  }
  return out;
}
NibbleSums ZeroNibbleSums() { return SplatInts(0); }
void MulNibbles(const Bytes& w, int32_t x, NibbleSums* acc) { MulBytes(w, x, acc); }
Ints Widen(const NibbleSums& sums) { return sums; }

constexpr int kSixQuads = 4;
template <int I>
Bytes WithTwoBits(const Bytes& nibbles, const std::byte* row) {
  Bytes out;
  for (int i = 0; i < 64; ++i) {
    const auto high = std::to_integer<uint8_t>(row[i] >> (2 * I) & std::byte{3});
    out.v[i] = static_cast<uint8_t>(nibbles.v[i] | high << 4);
  }
  return out;
}
Floats LoadSmall(const std::byte* from) {
  return Lanes<Floats>([&](int i) { return static_cast<float>(std::to_integer<int8_t>(from[i])); });
}

uint32_t Greatest(const float* x) {
  uint32_t greatest = 0;
  for (int64_t i = 0; i < kQuantBlock; ++i) {
    greatest = std::max(greatest, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  }
  return greatest;
}
void QuantizeSixteen(const float* x, float inverse, int32_t* quads) {
  int8_t bytes[16];
  for (int i = 0; i < 16; ++i) {
    const float scaled = std::nearbyint(x[i] * inverse);
    // Where a NaN or an infinity makes the scale NaN, any number does.
    bytes[i] = std::fabs(scaled) <= 127.0f ? static_cast<int8_t>(scaled) : int8_t{0};
  }
  std::memcpy(quads, bytes, sizeof(bytes));
}

int32_t SumOfSixteen(const int32_t* quads) {
  int8_t bytes[16];
  std::memcpy(bytes, quads, sizeof(bytes));
  int32_t sum = 0;
  for (const int8_t byte : bytes) sum += byte;
  return sum;
}

#include "lorica/kernels/cpu/quant-inl.h"

QuantTiling Choose(DType, int64_t) { return {2, 1}; }

}  // namespace

const QuantKernels* ScalarQuantKernels() {
  static constexpr QuantKernels kKernels = {"scalar", &TileFor, &Choose, &Pack};
  return &kKernels;
}

}  // namespace lorica::kernels::cpu
