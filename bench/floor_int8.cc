#include "bench/floor_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of its own intrinsics' undefined operands.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace lorica::bench {
namespace {

constexpr int kChains = 10;

__attribute__((target("avx2"))) float MultiplyBytesAvx2(int64_t rounds) {
  // Opaque, so that the products are made in every round.
  __m256i a = _mm256_set1_epi8(1);
  const __m256i b = _mm256_set1_epi8(1);
  __m256i sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = _mm256_set1_epi16(static_cast<int16_t>(i));
  for (int64_t round = 0; round < rounds; ++round) {
    __asm__ volatile("" : "+x"(a));
#ifdef __clang__
#pragma clang loop unroll(full)
#else
#pragma GCC unroll 10
#endif
    for (int i = 0; i < kChains; ++i) {
      __m256i pairs = _mm256_maddubs_epi16(a, b);
      __asm__ volatile("" : "+x"(pairs));
      sum[i] = _mm256_add_epi16(sum[i], pairs);
    }
  }
  for (int i = 1; i < kChains; ++i) sum[0] = _mm256_add_epi16(sum[0], sum[i]);
  return static_cast<float>(_mm256_extract_epi32(sum[0], 0));
}

__attribute__((target("avx512f,avx512vnni"))) float MultiplyBytesVnni(int64_t rounds) {
  const __m512i a = _mm512_set1_epi32(0x01010101);
  const __m512i b = _mm512_set1_epi32(0x01010101);
  __m512i sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = _mm512_set1_epi32(i);
  for (int64_t round = 0; round < rounds; ++round) {
#ifdef __clang__
#pragma clang loop unroll(full)
#else
#pragma GCC unroll 10
#endif
    for (int i = 0; i < kChains; ++i) sum[i] = _mm512_dpbusd_epi32(sum[i], a, b);
  }
  for (int i = 1; i < kChains; ++i) sum[0] = _mm512_add_epi32(sum[0], sum[i]);
  return static_cast<float>(_mm512_cvtsi512_si32(sum[0]));
}

}  // namespace

ByteFloor ByteFloorFor(std::string_view isa) {
  if (isa == "avx2") return {&MultiplyBytesAvx2, kChains * 32 * 2};
  if (isa == "avx512") return {&MultiplyBytesVnni, kChains * 64 * 2};
  return {};
}

}  // namespace lorica::bench

#else

namespace lorica::bench {

ByteFloor ByteFloorFor(std::string_view) { return {}; }

}  // namespace lorica::bench

#endif
