#include "lorica/kernels/cpu/quant.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <array>
#include <utility>

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of its own intrinsics' undefined operands.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define LORICA_Q __attribute__((target("avx2,f16c")))
#define LORICA_Q_INLINE LORICA_Q __attribute__((always_inline)) inline
#ifdef __clang__
#define LORICA_Q_UNROLL _Pragma("clang loop unroll(full)")
#else
#define LORICA_Q_UNROLL _Pragma("GCC unroll 32")
#endif

namespace lorica::kernels::cpu {
namespace {

constexpr bool Fits(DType, int rows, int panels) {
  return rows <= 5 && (panels == 1 || rows * panels <= 4);
}
constexpr bool kBytesAreSigned = true;
// As for bf16 (gemm-inl.h): int8 at one row 0.29 and 0.24 ms, 4-bit 0.21 and 0.16.
constexpr int64_t PrefetchBytes(int rows, int panels) {
  return panels == 1 && rows > 2 ? 4096 : 2048;
}

// Two registers of 8 lanes.
struct Ints {
  __m256i v[2];
};
struct Floats {
  __m256 v[2];
};
// maddubs wants one unsigned factor: |w|, and x with the sign of w. A pair of products is at most
// 2 * 128 * 127 = 32,512 and cannot saturate 16 bits.
struct Bytes {
  __m256i w[2], magnitude[2];
};
struct HalfBytes {
  __m256i v[2];
};
struct Nibbles {
  HalfBytes low, high;
};
// In 16 bits: 8 quads of pairs of 15 * 127 are at most 30,480.
struct NibbleSums {
  __m256i v[2];
};

LORICA_Q_INLINE __m256i Load(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
LORICA_Q_INLINE Ints SplatInts(int32_t value) {
  const __m256i all = _mm256_set1_epi32(value);
  return {{all, all}};
}
LORICA_Q_INLINE Ints AddInts(const Ints& a, const Ints& b) {
  return {{_mm256_add_epi32(a.v[0], b.v[0]), _mm256_add_epi32(a.v[1], b.v[1])}};
}
LORICA_Q_INLINE Floats ToFloats(const Ints& a) {
  return {{_mm256_cvtepi32_ps(a.v[0]), _mm256_cvtepi32_ps(a.v[1])}};
}
LORICA_Q_INLINE Floats SplatFloats(float value) {
  const __m256 all = _mm256_set1_ps(value);
  return {{all, all}};
}
LORICA_Q_INLINE Floats LoadFloats(const float* from) {
  return {{_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}};
}
LORICA_Q_INLINE void StoreFloats(const Floats& a, float* to) {
  _mm256_storeu_ps(to, a.v[0]);
  _mm256_storeu_ps(to + 8, a.v[1]);
}
LORICA_Q_INLINE Floats AddFloats(const Floats& a, const Floats& b) {
  return {{_mm256_add_ps(a.v[0], b.v[0]), _mm256_add_ps(a.v[1], b.v[1])}};
}
LORICA_Q_INLINE Floats MulFloats(const Floats& a, const Floats& b) {
  return {{_mm256_mul_ps(a.v[0], b.v[0]), _mm256_mul_ps(a.v[1], b.v[1])}};
}
LORICA_Q_INLINE Floats LoadHalves(const std::byte* from) {
  const auto* halves = reinterpret_cast<const __m128i*>(from);
  return {{_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))}};
}

LORICA_Q_INLINE Bytes LoadBytes(const std::byte* row) {
  const __m256i sign = _mm256_set1_epi8(-128);
  Bytes out;
  LORICA_Q_UNROLL
  for (int i = 0; i < 2; ++i) {
    out.w[i] = _mm256_xor_si256(Load(row + 32 * i), sign);
    out.magnitude[i] = _mm256_abs_epi8(out.w[i]);
  }
  return out;
}
LORICA_Q_INLINE void MulBytes(const Bytes& w, int32_t x, Ints* acc) {
  const __m256i xs = _mm256_set1_epi32(x);
  const __m256i one = _mm256_set1_epi16(1);
  LORICA_Q_UNROLL
  for (int i = 0; i < 2; ++i) {
    const __m256i pairs = _mm256_maddubs_epi16(w.magnitude[i], _mm256_sign_epi8(xs, w.w[i]));
    acc->v[i] = _mm256_add_epi32(acc->v[i], _mm256_madd_epi16(pairs, one));
  }
}
LORICA_Q_INLINE Nibbles LoadNibbles(const std::byte* row) {
  const __m256i mask = _mm256_set1_epi8(15);
  Nibbles out;
  LORICA_Q_UNROLL
  for (int i = 0; i < 2; ++i) {
    const __m256i both = Load(row + 32 * i);
    out.low.v[i] = _mm256_and_si256(both, mask);
    out.high.v[i] = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask);
  }
  return out;
}
LORICA_Q_INLINE NibbleSums ZeroNibbleSums() {
  return {{_mm256_setzero_si256(), _mm256_setzero_si256()}};
}
LORICA_Q_INLINE void MulNibbles(const HalfBytes& w, int32_t x, NibbleSums* acc) {
  const __m256i xs = _mm256_set1_epi32(x);
  LORICA_Q_UNROLL
  for (int i = 0; i < 2; ++i) {
    acc->v[i] = _mm256_add_epi16(acc->v[i], _mm256_maddubs_epi16(w.v[i], xs));
  }
}
LORICA_Q_INLINE Ints Widen(const NibbleSums& sums) {
  const __m256i one = _mm256_set1_epi16(1);
  return {{_mm256_madd_epi16(sums.v[0], one), _mm256_madd_epi16(sums.v[1], one)}};
}

// In 16 bits: two quads of pairs of 63 * 127 are at most 32,004.
constexpr int kSixQuads = 2;
template <int I>
LORICA_Q_INLINE HalfBytes WithTwoBits(const HalfBytes& nibbles, const std::byte* row) {
  HalfBytes out;
  LORICA_Q_UNROLL
  for (int i = 0; i < 2; ++i) {
    const __m256i four = Load(row + 32 * i);
    const __m256i high =
        I < 2 ? _mm256_slli_epi16(four, 4 - 2 * I) : _mm256_srli_epi16(four, 2 * I - 4);
    out.v[i] = _mm256_or_si256(nibbles.v[i], _mm256_and_si256(high, _mm256_set1_epi8(48)));
  }
  return out;
}
LORICA_Q_INLINE Floats LoadSmall(const std::byte* from) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return ToFloats({{_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))}});
}

LORICA_Q_INLINE uint32_t Greatest(const float* x) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i greatest = _mm256_setzero_si256();
  for (int64_t i = 0; i < kQuantBlock; i += 8) {
    greatest = _mm256_max_epu32(greatest, _mm256_and_si256(Load(x + i), magnitude));
  }
  alignas(32) uint32_t lanes[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), greatest);
  uint32_t most = 0;
  for (const uint32_t lane : lanes) most = lane > most ? lane : most;
  return most;
}
LORICA_Q_INLINE __m128i Nearest(const float* x, __m256 inverse) {
  const __m256i whole = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inverse));
  return _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
}
LORICA_Q_INLINE void QuantizeSixteen(const float* x, float inverse, int32_t* quads) {
  const __m256 factor = _mm256_set1_ps(inverse);
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

QuantTiling Choose(DType, int64_t rows) {
  if (rows == 1) return {1, 4};
  if (rows == 2) return {2, 2};
  return {4, 1};
}

}  // namespace

const QuantKernels* Avx2QuantKernels() {
  static constexpr QuantKernels kKernels = {"avx2", &TileFor, &Choose, &Pack};
  return &kKernels;
}

}  // namespace lorica::kernels::cpu

#else

namespace lorica::kernels::cpu {

const QuantKernels* Avx2QuantKernels() { return nullptr; }

}  // namespace lorica::kernels::cpu

#endif
