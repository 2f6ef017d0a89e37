#include "lorica/kernels/cpu/dot.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "lorica/base/float_mode.h"
#include "lorica/kernels/cpu/packing.h"

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of its own intrinsics' undefined operands.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define LORICA_DOT __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))
#define LORICA_DOT_INLINE LORICA_DOT __attribute__((always_inline)) inline
#ifdef __clang__
#define LORICA_DOT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define LORICA_DOT_UNROLL _Pragma("GCC unroll 16")
#endif

namespace lorica::kernels::cpu {
namespace {

// How far ahead of its use a line is asked for; best of those tried.
constexpr int64_t kShrinkPrefetchBytes = 1024;

LORICA_DOT_INLINE __m512 Dot(__m512 acc, __m512i w, __m512i x) {
  return _mm512_dpbf16_ps(acc, (__m512bh)w, (__m512bh)x);
}
LORICA_DOT_INLINE __m256 Dot(__m256 acc, __m256i w, __m256i x) {
  return _mm256_dpbf16_ps(acc, (__m256bh)w, (__m256bh)x);
}

template <int R, int P>
LORICA_DOT void BaseTile(const TileArgs& args) {
  const auto* x = reinterpret_cast<const uint32_t*>(args.x);
  const std::byte* w = args.w;
  const std::byte* ahead = args.ahead;
  const int64_t ahead_step = args.ahead_step;
  const int64_t panel_bytes = args.panel_bytes;
  const std::byte* const* line = args.prefetch;
  const std::byte* const* const last = args.prefetch_last;
  for (int64_t left = args.pairs; left > 0; left -= kChainPairs) {
    __m512 acc[R][P];
    LORICA_DOT_UNROLL
    for (int r = 0; r < R; ++r) {
      LORICA_DOT_UNROLL
      for (int p = 0; p < P; ++p) acc[r][p] = _mm512_setzero_ps();
    }
    for (int64_t pair = std::min(left, kChainPairs); pair > 0; --pair) {
      _mm_prefetch(reinterpret_cast<const char*>(*line), _MM_HINT_T0);
      line += line < last ? 1 : 0;
      __m512i weights[P];
      LORICA_DOT_UNROLL
      for (int p = 0; p < P; ++p) {
        const std::byte* row = w + p * panel_bytes;
        _mm_prefetch(reinterpret_cast<const char*>(ahead + p * panel_bytes), _MM_HINT_T0);
        weights[p] = _mm512_loadu_si512(row);
      }
      ahead += ahead_step;
      LORICA_DOT_UNROLL
      for (int r = 0; r < R; ++r) {
        const __m512i xs = _mm512_set1_epi32(static_cast<int>(x[r]));
        LORICA_DOT_UNROLL
        for (int p = 0; p < P; ++p) acc[r][p] = Dot(acc[r][p], weights[p], xs);
      }
      x += R;
      w += 64;
    }
    LORICA_DOT_UNROLL
    for (int r = 0; r < R; ++r) {
      LORICA_DOT_UNROLL
      for (int p = 0; p < P; ++p) {
        float* to = args.acc + (r * P + p) * 16;
        _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), acc[r][p]));
      }
    }
  }
}

template <int P, int R>
constexpr TileFunction TileOrNull() {
  if constexpr (DotTileFits(R, P)) {
    return &BaseTile<R, P>;
  } else {
    return nullptr;
  }
}
template <int P, int... R>
constexpr std::array<TileFunction, kDotTileRows> TileRow(std::integer_sequence<int, R...>) {
  return {TileOrNull<P, R + 1>()...};
}
TileFunction TileFor(int rows, int panels) {
  constexpr auto kRows = std::make_integer_sequence<int, kDotTileRows>();
  static constexpr std::array<TileFunction, kDotTileRows> kTiles[] = {
      TileRow<1>(kRows), TileRow<2>(kRows), TileRow<4>(kRows)};
  return kTiles[panels / 2][static_cast<size_t>(rows - 1)];
}

// Pairs [begin, end): those modulo 2 go to two chains, added once, as in the f32 shrink. The
// sums of the blocks are added up in S, and the last block scales them.
template <int R, int T>
LORICA_DOT_INLINE void ShrinkChains(const DotShrinkArgs& args, IndexRange range) {
  __m256 chain[2][R][T];
  LORICA_DOT_UNROLL
  for (int half = 0; half < 2; ++half) {
    LORICA_DOT_UNROLL
    for (int r = 0; r < R; ++r) {
      LORICA_DOT_UNROLL
      for (int t = 0; t < T; ++t) chain[half][r][t] = _mm256_setzero_ps();
    }
  }
  const uint32_t* x[R];
  const std::byte* a[T];
  LORICA_DOT_UNROLL
  for (int r = 0; r < R; ++r) x[r] = args.x[r];
  LORICA_DOT_UNROLL
  for (int t = 0; t < T; ++t) a[t] = args.a[t];
  for (int64_t pair = range.begin; pair < range.end; pair += 2) {
    const int64_t offset = pair * 32;
    LORICA_DOT_UNROLL
    for (int t = 0; t < T; ++t) {
      const auto* ahead = reinterpret_cast<const char*>(a[t] + offset + kShrinkPrefetchBytes);
      _mm_prefetch(ahead, _MM_HINT_T0);
    }
    LORICA_DOT_UNROLL
    for (int half = 0; half < 2; ++half) {
      __m256i factors[T];
      LORICA_DOT_UNROLL
      for (int t = 0; t < T; ++t) {
        const std::byte* row = a[t] + offset + half * 32;
        factors[t] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row));
      }
      LORICA_DOT_UNROLL
      for (int r = 0; r < R; ++r) {
        const __m256i xs = _mm256_set1_epi32(static_cast<int>(x[r][pair + half]));
        LORICA_DOT_UNROLL
        for (int t = 0; t < T; ++t) chain[half][r][t] = Dot(chain[half][r][t], factors[t], xs);
      }
    }
  }
  LORICA_DOT_UNROLL
  for (int r = 0; r < R; ++r) {
    LORICA_DOT_UNROLL
    for (int t = 0; t < T; ++t) {
      float* to = args.s + r * args.s_stride + t * 8;
      const __m256 before = range.begin == 0 ? _mm256_setzero_ps() : _mm256_loadu_ps(to);
      const __m256 sum = _mm256_add_ps(before, _mm256_add_ps(chain[0][r][t], chain[1][r][t]));
      const bool last = range.end == args.pairs;
      _mm256_storeu_ps(to, last ? _mm256_mul_ps(sum, _mm256_set1_ps(args.scale[t])) : sum);
    }
  }
}

template <int R, int T>
LORICA_DOT void ShrinkBlock(const DotShrinkArgs& args) {
  for (int64_t begin = 0; begin < args.pairs; begin += kChainPairs) {
    ShrinkChains<R, T>(args, {begin, std::min(begin + kChainPairs, args.pairs)});
  }
}

DotShrinkFunction ShrinkFor(int rows, int tiles) {
  static constexpr DotShrinkFunction kBlocks[kDotShrinkRows][3] = {
      {&ShrinkBlock<1, 1>, &ShrinkBlock<1, 2>, &ShrinkBlock<1, 4>},
      {&ShrinkBlock<2, 1>, &ShrinkBlock<2, 2>, &ShrinkBlock<2, 4>},
      {&ShrinkBlock<3, 1>, &ShrinkBlock<3, 2>, nullptr},
      {&ShrinkBlock<4, 1>, &ShrinkBlock<4, 2>, nullptr}};
  return kBlocks[rows - 1][tiles / 2];
}

// 16 floats as F32ToBf16 rounds them, each in the high half of its lane. By integers: the
// processor's own conversion would flush denormals that round up to a normal number.
LORICA_DOT_INLINE __m512i RoundToBf16(__m512i bits) {
  const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  const __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
  const __mmask16 nan = _mm512_cmpgt_epu32_mask(magnitude, _mm512_set1_epi32(0x7f800000));
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  return _mm512_and_si512(_mm512_mask_mov_epi32(up, nan, quiet), high);
}

constexpr uint32_t LowBits(int64_t n) {
  return n >= 16 ? 0xffffu : n <= 0 ? 0u : (1u << static_cast<unsigned>(n)) - 1u;
}

LORICA_DOT void Pack(const DotPackArgs& args) {
  constexpr int64_t kBlock = 8;
  for (int64_t pair = args.pairs.begin; pair < args.pairs.end; pair += kBlock) {
    const int64_t count = std::min(kBlock, args.pairs.end - pair);
    const int64_t floats = std::min(2 * count, args.k - 2 * pair);
    const auto mask = static_cast<__mmask16>(LowBits(floats));
    // A masked lane reads as zero and touches no memory.
    const __m512i rounded =
        RoundToBf16(_mm512_castps_si512(_mm512_maskz_loadu_ps(mask, args.x + 2 * pair)));
    if (args.rounded != nullptr) {
      _mm512_mask_storeu_epi32(args.rounded + 2 * pair, mask, rounded);
    }
    // A 64-bit lane holds k in its low half and k + 1 in its high half.
    const __m512i even = _mm512_and_si512(rounded, _mm512_set1_epi64(0xffff0000));
    const __m512i lanes = _mm512_or_si512(even, _mm512_srli_epi64(rounded, 48));
    const __m256i pairs = _mm512_cvtepi64_epi32(lanes);
    if (args.dense != nullptr) {
      _mm256_mask_storeu_epi32(args.dense + pair, static_cast<__mmask8>(LowBits(count)), pairs);
    }
    alignas(32) uint32_t out[kBlock];
    _mm256_store_si256(reinterpret_cast<__m256i*>(out), pairs);
    uint32_t* to = args.tile + pair * args.tile_rows;
    for (int64_t i = 0; i < count; ++i) to[i * args.tile_rows] = out[i];
  }
}

}  // namespace

const DotKernels* CompiledDotKernels() {
  static constexpr DotKernels kKernels = {&TileFor, &ShrinkFor, &Pack};
  return &kKernels;
}

LORICA_DOT bool DotEqualsFma() {
  const ScopedFlushDenormals flush;
  const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  uint64_t state = 0x9e3779b97f4a7c15u;
  for (int round = 0; round < 256; ++round) {
    // Of 16 lanes each: two weights, two inputs, and the sum so far. Every second round keeps
    // exponents near one, so that the three addends overlap.
    alignas(64) uint32_t bits[3][16];
    for (auto& row : bits) {
      for (uint32_t& lane : row) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        lane = static_cast<uint32_t>(state >> 32);
        if (round % 2 == 1) lane = (lane & 0x87ff87ffu) | 0x38003800u;
      }
    }
    const __m512i w = _mm512_load_si512(bits[0]);
    const __m512i x = _mm512_load_si512(bits[1]);
    const __m512 acc = _mm512_castsi512_ps(_mm512_load_si512(bits[2]));
    const __m512 dot = Dot(acc, w, x);
    __m512 fma = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(w, high)),
                                 _mm512_castsi512_ps(_mm512_and_si512(x, high)), acc);
    fma = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(w, 16)),
                          _mm512_castsi512_ps(_mm512_slli_epi32(x, 16)), fma);
    // A NaN has no bits to keep: it ends its request. Its sign and payload may differ.
    const __mmask16 nan = static_cast<__mmask16>(_mm512_cmp_ps_mask(dot, dot, _CMP_UNORD_Q) &
                                                 _mm512_cmp_ps_mask(fma, fma, _CMP_UNORD_Q));
    const __mmask16 differ =
        _mm512_cmpneq_epi32_mask(_mm512_castps_si512(dot), _mm512_castps_si512(fma));
    if ((differ & ~nan & 0xffff) != 0) return false;
  }
  return true;
}

}  // namespace lorica::kernels::cpu

#else

namespace lorica::kernels::cpu {

const DotKernels* CompiledDotKernels() { return nullptr; }
bool DotEqualsFma() { return false; }

}  // namespace lorica::kernels::cpu

#endif
