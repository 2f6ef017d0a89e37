#include "lorica/kernels/cpu/quant.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <array>
#include <cstring>
#include <utility>

#define LORICA_Q __attribute__((target("sse4.1")))
#define LORICA_Q_INLINE LORICA_Q __attribute__((always_inline)) inline
#ifdef __clang__
#define LORICA_Q_UNROLL _Pragma("clang loop unroll(full)")
#else
#define LORICA_Q_UNROLL _Pragma("GCC unroll 32")
#endif

namespace lorica::kernels::cpu {
namespace {

// A set for old machines: few tiles, so that they compile quickly.
constexpr bool Fits(DType, int rows, int panels) { return rows * panels <= 2; }
constexpr bool kBytesAreSigned = true;
constexpr int64_t PrefetchBytes(int, int) { return 512; }

// Four registers of 4 lanes. The arithmetic is that of AVX2 (quant_avx2.cc).
struct Ints {
  __m128i v[4];
};
struct Floats {
  __m128 v[4];
};
struct Bytes {
  __m128i w[4], magnitude[4];
};
struct HalfBytes {
  __m128i v[4];
};
struct Nibbles {
  HalfBytes low, high;
};
struct NibbleSums {
  __m128i v[4];
};

LORICA_Q_INLINE __m128i Load(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}
LORICA_Q_INLINE Ints SplatInts(int32_t value) {
  const __m128i all = _mm_set1_epi32(value);
  return {{all, all, all, all}};
}
LORICA_Q_INLINE Ints AddInts(const Ints& a, const Ints& b) {
  Ints out;
  LORICA_Q_UNROLL
  for (int i = 0; i < 4; ++i) out.v[i] = _mm_add_epi32(a.v[i], b.v[i]);
  return out;
}
LORICA_Q_INLINE Floats ToFloats(const Ints& a) {
  Floats out;
  LORICA_Q_UNROLL
  for (int i = 0; i < 4; ++i) out.v[i] = _mm_cvtepi32_ps(a.v[i]);
  return out;
}
LORICA_Q_INLINE Floats SplatFloats(float value) {
  const __m128 all = _mm_set1_ps(value);
  return {{all, all, all, all}};
}
LORICA_Q_INLINE Floats LoadFloats(const float* from) {
  Floats out;
  LORICA_Q_UNROLL
  for (int i = 0; i < 4; ++i) out.v[i] = _mm_loadu_ps(from + 4 * i);
  return out;
}
LORICA_Q_INLINE void StoreFloats(const Floats& a, float* to) {
  LORICA_Q_UNROLL
  for (int i = 0; i < 4; ++i) _mm_storeu_ps(to + 4 * i, a.v[i]);
}
LORICA_Q_INLINE Floats AddFloats(const Floats& a, const Floats& b) {
  Floats out;
  LORICA_Q_UNROLL
  for (int i = 0; i < 4; ++i) out.v[i] = _mm_add_ps(a.v[i], b.v[i]);
  return out;
}
LORICA_Q_INLINE Floats MulFloats(const Floats& a, const Floats& b) {
  Floats out;
  LORICA_Q_UNROLL
  for (int i = 0; i < 4; ++i) out.v[i] = _mm_mul_ps(a.v[i], b.v[i]);
  return out;
}
LORICA_Q_INLINE Floats LoadHalves(const std::byte* from) {
  uint16_t bits[16];
  std::memcpy(bits, from, sizeof(bits));
  float lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = F16ToF32(bits[i]);
  return LoadFloats(lanes);
}

LORICA_Q_INLINE Bytes LoadBytes(const std::byte* row) {
  const __m128i sign = _mm_set1_epi8(-128);
  Bytes out;
  LORICA_Q_UNROLL
  for (int i = 0; i < 4; ++i) {
    out.w[i] = _mm_xor_si128(Load(row + 16 * i), sign);
    out.magnitude[i] = _mm_abs_epi8(out.w[i]);
  }
  return out;
}
LORICA_Q_INLINE void MulBytes(const Bytes& w, int32_t x, Ints* acc) {
  const __m128i xs = _mm_set1_epi32(x);
  const __m128i one = _mm_set1_epi16(1);
  LORICA_Q_UNROLL
  for (int i = 0; i < 4; ++i) {
    const __m128i pairs = _mm_maddubs_epi16(w.magnitude[i], _mm_sign_epi8(xs, w.w[i]));
    acc->v[i] = _mm_add_epi32(acc->v[i], _mm_madd_epi16(pairs, one));
  }
}
LORICA_Q_INLINE Nibbles LoadNibbles(const std::byte* row) {
  const __m128i mask = _mm_set1_epi8(15);
  Nibbles out;
  LORICA_Q_UNROLL
  for (int i = 0; i < 4; ++i) {
    const __m128i both = Load(row + 16 * i);
    out.low.v[i] = _mm_and_si128(both, mask);
    out.high.v[i] = _mm_and_si128(_mm_srli_epi16(both, 4), mask);
  }
  return out;
}
LORICA_Q_INLINE NibbleSums ZeroNibbleSums() {
  const __m128i zero = _mm_setzero_si128();
  return {{zero, zero, zero, zero}};
}
LORICA_Q_INLINE void MulNibbles(const HalfBytes& w, int32_t x, NibbleSums* acc) {
  const __m128i xs = _mm_set1_epi32(x);
  LORICA_Q_UNROLL
  for (int i = 0; i < 4; ++i) {
    acc->v[i] = _mm_add_epi16(acc->v[i], _mm_maddubs_epi16(w.v[i], xs));
  }
}
LORICA_Q_INLINE Ints Widen(const NibbleSums& sums) {
  const __m128i one = _mm_set1_epi16(1);
  Ints out;
  LORICA_Q_UNROLL
  for (int i = 0; i < 4; ++i) out.v[i] = _mm_madd_epi16(sums.v[i], one);
  return out;
}

constexpr int kSixQuads = 2;
template <int I>
LORICA_Q_INLINE HalfBytes WithTwoBits(const HalfBytes& nibbles, const std::byte* row) {
  HalfBytes out;
  LORICA_Q_UNROLL
  for (int i = 0; i < 4; ++i) {
    const __m128i four = Load(row + 16 * i);
    const __m128i high = I < 2 ? _mm_slli_epi16(four, 4 - 2 * I) : _mm_srli_epi16(four, 2 * I - 4);
    out.v[i] = _mm_or_si128(nibbles.v[i], _mm_and_si128(high, _mm_set1_epi8(48)));
  }
  return out;
}
LORICA_Q_INLINE Floats LoadSmall(const std::byte* from) {
  float lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = static_cast<float>(std::to_integer<int8_t>(from[i]));
  return LoadFloats(lanes);
}

LORICA_Q_INLINE uint32_t Greatest(const float* x) {
  const __m128i magnitude = _mm_set1_epi32(0x7fffffff);
  __m128i greatest = _mm_setzero_si128();
  for (int64_t i = 0; i < kQuantBlock; i += 4) {
    greatest = _mm_max_epu32(greatest, _mm_and_si128(Load(x + i), magnitude));
  }
  alignas(16) uint32_t lanes[4];
  _mm_store_si128(reinterpret_cast<__m128i*>(lanes), greatest);
  uint32_t most = 0;
  for (const uint32_t lane : lanes) most = lane > most ? lane : most;
  return most;
}
LORICA_Q_INLINE __m128i Nearest(const float* x, __m128 inverse) {
  return _mm_packs_epi32(_mm_cvtps_epi32(_mm_mul_ps(_mm_loadu_ps(x), inverse)),
                         _mm_cvtps_epi32(_mm_mul_ps(_mm_loadu_ps(x + 4), inverse)));
}
LORICA_Q_INLINE void QuantizeSixteen(const float* x, float inverse, int32_t* quads) {
  const __m128 factor = _mm_set1_ps(inverse);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(quads),
                   _mm_packs_epi16(Nearest(x, factor), Nearest(x + 8, factor)));
}

// Sums of absolute differences to zero add unsigned bytes: each is taken 128 too high.
LORICA_Q_INLINE int32_t SumOfSixteen(const int32_t* quads) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(quads));
  const __m128i sum = _mm_sad_epu8(_mm_xor_si128(bytes, _mm_set1_epi8(-128)), _mm_setzero_si128());
  return _mm_cvtsi128_si32(sum) + _mm_extract_epi32(sum, 2) - 128 * 16;
}

#include "lorica/kernels/cpu/quant-inl.h"

QuantTiling Choose(DType, int64_t) { return {2, 1}; }

}  // namespace

const QuantKernels* Sse4QuantKernels() {
  static constexpr QuantKernels kKernels = {"sse4", &TileFor, &Choose, &Pack};
  return &kKernels;
}

}  // namespace lorica::kernels::cpu

#else

namespace lorica::kernels::cpu {

const QuantKernels* Sse4QuantKernels() { return nullptr; }

}  // namespace lorica::kernels::cpu

#endif
