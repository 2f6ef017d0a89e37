#include "bench/floor_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of its own intrinsics' undefined operands.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace lorica::bench {

__attribute__((target("avx512f,avx512bf16"))) float MultiplyByDot(int64_t rounds) {
  constexpr int kChains = 10;
  const __m512i a = _mm512_set1_epi32(0x3f7f3f7f);  // pairs of 0.996
  const __m512i b = _mm512_set1_epi32(0x3c003c00);
  __m512 sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round) {
#ifdef __clang__
#pragma clang loop unroll(full)
#else
#pragma GCC unroll 10
#endif
    for (int i = 0; i < kChains; ++i) sum[i] = _mm512_dpbf16_ps(sum[i], (__m512bh)a, (__m512bh)b);
  }
  for (int i = 1; i < kChains; ++i) sum[0] = _mm512_add_ps(sum[0], sum[i]);
  return _mm512_cvtss_f32(sum[0]);
}

}  // namespace lorica::bench

#else

namespace lorica::bench {

float MultiplyByDot(int64_t) { return 0.0f; }

}  // namespace lorica::bench

#endif
