#include "lorica/kernels/cpu/quant.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <array>
#include <utility>

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of its own intrinsics' undefined operands, and of vectors as template arguments.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wignored-attributes"
#endif

#define LORICA_Q __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define LORICA_Q_INLINE LORICA_Q __attribute__((always_inline)) inline
#ifdef __clang__
#define LORICA_Q_UNROLL _Pragma("clang loop unroll(full)")
#else
#define LORICA_Q_UNROLL _Pragma("GCC unroll 32")
#endif

namespace lorica::kernels::cpu {
namespace {

// Registers decide, of 32: int32 sums of a block and f32 totals beside them, rows of weights, a
// scale and one of x.
constexpr bool Fits(DType, int rows, int panels) { return rows * panels <= 14; }
constexpr bool kBytesAreSigned = false;
constexpr int64_t PrefetchBytes(int, int panels) { return panels == 4 ? 1024 : 2048; }

using Ints = __m512i;
using Floats = __m512;
using Bytes = __m512i;
struct Nibbles {
  __m512i low, high;
};
using NibbleSums = __m512i;

LORICA_Q_INLINE Ints SplatInts(int32_t value) { return _mm512_set1_epi32(value); }
LORICA_Q_INLINE Ints AddInts(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
LORICA_Q_INLINE Floats ToFloats(Ints a) { return _mm512_cvtepi32_ps(a); }
LORICA_Q_INLINE Floats SplatFloats(float value) { return _mm512_set1_ps(value); }
LORICA_Q_INLINE Floats LoadFloats(const float* from) { return _mm512_loadu_ps(from); }
LORICA_Q_INLINE void StoreFloats(Floats a, float* to) { _mm512_storeu_ps(to, a); }
LORICA_Q_INLINE Floats AddFloats(Floats a, Floats b) { return _mm512_add_ps(a, b); }
LORICA_Q_INLINE Floats MulFloats(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
LORICA_Q_INLINE Floats LoadHalves(const std::byte* from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

LORICA_Q_INLINE Bytes LoadBytes(const std::byte* row) { return _mm512_loadu_si512(row); }
LORICA_Q_INLINE void MulBytes(Bytes w, int32_t x, Ints* acc) {
  *acc = _mm512_dpbusd_epi32(*acc, w, _mm512_set1_epi32(x));
}
LORICA_Q_INLINE Nibbles LoadNibbles(const std::byte* row) {
  const __m512i mask = _mm512_set1_epi8(15);
  const __m512i both = _mm512_loadu_si512(row);
  return {_mm512_and_si512(both, mask), _mm512_and_si512(_mm512_srli_epi16(both, 4), mask)};
}
LORICA_Q_INLINE NibbleSums ZeroNibbleSums() { return _mm512_setzero_si512(); }
LORICA_Q_INLINE void MulNibbles(__m512i w, int32_t x, NibbleSums* acc) { MulBytes(w, x, acc); }
LORICA_Q_INLINE Ints Widen(NibbleSums sums) { return sums; }

constexpr int kSixQuads = 4;
template <int I>
LORICA_Q_INLINE __m512i WithTwoBits(__m512i nibbles, const std::byte* row) {
  const __m512i four = _mm512_loadu_si512(row);
  const __m512i high =
      I < 2 ? _mm512_slli_epi16(four, 4 - 2 * I) : _mm512_srli_epi16(four, 2 * I - 4);
  return _mm512_or_si512(nibbles, _mm512_and_si512(high, _mm512_set1_epi8(48)));
}
LORICA_Q_INLINE Floats LoadSmall(const std::byte* from) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}

LORICA_Q_INLINE uint32_t Greatest(const float* x) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  __m512i greatest = _mm512_setzero_si512();
  for (int64_t i = 0; i < kQuantBlock; i += 16) {
    const __m512i bits = _mm512_and_si512(_mm512_loadu_si512(x + i), magnitude);
    greatest = _mm512_max_epu32(greatest, bits);
  }
  return _mm512_reduce_max_epu32(greatest);
}
LORICA_Q_INLINE void QuantizeSixteen(const float* x, float inverse, int32_t* quads) {
  const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(x), _mm512_set1_ps(inverse));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(quads),
                   _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(scaled)));
}

// Sums of absolute differences to zero add unsigned bytes: each is taken 128 too high.
LORICA_Q_INLINE int32_t SumOfSixteen(const int32_t* quads) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(quads));
  const __m128i sum = _mm_sad_epu8(_mm_xor_si128(bytes, _mm_set1_epi8(-128)), _mm_setzero_si128());
  return _mm_cvtsi128_si32(sum) + _mm_extract_epi32(sum, 2) - 128 * 16;
}

#include "lorica/kernels/cpu/quant-inl.h"

QuantTiling Choose(DType, int64_t rows) {
  if (rows <= 3) return {3, 4};
  if (rows <= 6) return {6, 2};
  return {12, 1};
}

}  // namespace

const QuantKernels* VnniQuantKernels() {
  static constexpr QuantKernels kKernels = {"vnni", &TileFor, &Choose, &Pack};
  return &kKernels;
}

}  // namespace lorica::kernels::cpu

#else

namespace lorica::kernels::cpu {

const QuantKernels* VnniQuantKernels() { return nullptr; }

}  // namespace lorica::kernels::cpu

#endif
