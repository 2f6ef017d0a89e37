// The two halves of LoRA on rank tiles of 8: shrink (S = scale * x * A^T; in each
// block of kChainPairs two chains along k: pairs modulo 2, added once) and expand
// (the base product's accumulators go on along the ranks).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lorica/base/thread_pool.h"
#include "lorica/kernels/cpu/lanes-inl.h"
#include "lorica/kernels/cpu/packing.h"
#include "lorica/lora/weight_table.h"

#if defined(LORICA_KERNELS_CPU_LORA_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_KERNELS_CPU_LORA_INL_H_
#undef LORICA_KERNELS_CPU_LORA_INL_H_
#else
#define LORICA_KERNELS_CPU_LORA_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace lorica::kernels::cpu::HWY_NAMESPACE {

inline constexpr int64_t kShrinkPrefetchBytes = 1024;

// Rows and rank tiles that one pass over k takes: R * T * 2 accumulators of 8 lanes.
inline constexpr int kShrinkRows = 4;
inline constexpr int kShrinkTiles = 4;
#if HWY_TARGET == HWY_AVX3
inline constexpr int kShrinkBudget = 8;
#elif HWY_TARGET == HWY_AVX2
inline constexpr int kShrinkBudget = 4;
#else
inline constexpr int kShrinkBudget = 1;
#endif
inline constexpr int kExpandRows = kShrinkBudget > 1 ? 4 : 1;

struct ShrinkArgs {
  const float* x[kShrinkRows] = {};  // rows of x
  int64_t k = 0;
  const std::byte* a[kShrinkTiles] = {};  // A of rank tiles of one type
  float scale[kShrinkTiles] = {};
  float* s = nullptr;  // [rows][tiles * 8], s_stride floats apart
  int64_t s_stride = 0;
};

template <int R, int T>
struct ShrinkChains {
  Wide<8> v[2][R][T];
};

// Four k: the first pair goes to chain 0, the second to chain 1.
template <int R, int T, class Format>
HWY_INLINE void ShrinkQuad(const float* const (&x)[R], int64_t k, const std::byte* const (&a)[T],
                           int64_t offset, ShrinkChains<R, T>* chains) {
  LORICA_UNROLL
  for (int half = 0; half < 2; ++half) {
    LORICA_UNROLL
    for (int t = 0; t < T; ++t) {
      const std::byte* row = a[t] + offset + half * Format::kPairBytes;
      const Wide<8> even = Format::Even(row);
      const Wide<8> odd = Format::Odd(row);
      LORICA_UNROLL
      for (int r = 0; r < R; ++r) {
        Wide<8>& chain = chains->v[half][r][t];
        chain = FmaW(even, Splat<8>(x[r][k + 2 * half]), chain);
        chain = FmaW(odd, Splat<8>(x[r][k + 2 * half + 1]), chain);
      }
    }
  }
}

// The k of [range): of a block. The sums of the blocks are added up in S, and the last one scales
// them.
template <int R, int T, class Format>
HWY_INLINE void ShrinkChain(const ShrinkArgs& args, IndexRange range) {
  ShrinkChains<R, T> chains;
  const float* x[R];
  const std::byte* a[T];
  LORICA_UNROLL
  for (int r = 0; r < R; ++r) x[r] = args.x[r];
  LORICA_UNROLL
  for (int t = 0; t < T; ++t) a[t] = args.a[t];
  LORICA_UNROLL
  for (int half = 0; half < 2; ++half) {
    LORICA_UNROLL
    for (int r = 0; r < R; ++r) {
      LORICA_UNROLL
      for (int t = 0; t < T; ++t) chains.v[half][r][t] = Splat<8>(0.0f);
    }
  }
  const int64_t whole = range.end / 4 * 4;
  int64_t k = range.begin;
  int64_t offset = k / 2 * Format::kPairBytes;
  for (; k < whole; k += 4, offset += 2 * Format::kPairBytes) {
    LORICA_UNROLL
    for (int t = 0; t < T; ++t) hwy::Prefetch(a[t] + offset + kShrinkPrefetchBytes);
    ShrinkQuad<R, T, Format>(x, k, a, offset, &chains);
  }
  if (k < range.end) {
    float tail[R][4] = {};
    for (int r = 0; r < R; ++r) {
      for (int64_t i = k; i < range.end; ++i) tail[r][i - k] = x[r][i];
      x[r] = tail[r];
    }
    ShrinkQuad<R, T, Format>(x, 0, a, offset, &chains);
  }
  LORICA_UNROLL
  for (int r = 0; r < R; ++r) {
    LORICA_UNROLL
    for (int t = 0; t < T; ++t) {
      float* to = args.s + r * args.s_stride + t * 8;
      const Wide<8> before = range.begin == 0 ? Splat<8>(0.0f) : Load<8>(to);
      const Wide<8> sum = AddW(before, AddW(chains.v[0][r][t], chains.v[1][r][t]));
      const bool last = range.end == args.k;
      Store<8>(last ? MulW(sum, Splat<8>(args.scale[t])) : sum, to);
    }
  }
}

template <int R, int T, class Format>
void ShrinkBlock(const ShrinkArgs& args) {
  for (int64_t begin = 0; begin < args.k; begin += 2 * kChainPairs) {
    ShrinkChain<R, T, Format>(args, {begin, std::min(begin + 2 * kChainPairs, args.k)});
  }
}

// How many rank tiles one pass takes for this many rows: 4, 2 or 1.
constexpr int ShrinkTilesFor(int rows) {
  int tiles = kShrinkTiles;
  while (tiles > 1 && rows * tiles > kShrinkBudget) tiles /= 2;
  return tiles;
}
constexpr int MostShrinkRows() { return kShrinkBudget < 4 ? kShrinkBudget : kShrinkRows; }

template <class Format, int R, int T = ShrinkTilesFor(R)>
void ShrinkSome(int tiles, const ShrinkArgs& args) {
  if constexpr (T > 1) {
    if (tiles < T) return ShrinkSome<Format, R, T / 2>(tiles, args);
  }
  ShrinkBlock<R, T, Format>(args);
}
template <class Format, int R = MostShrinkRows()>
void ShrinkRows(int rows, int tiles, const ShrinkArgs& args) {
  if constexpr (R > 1) {
    if (rows < R) return ShrinkRows<Format, R - 1>(rows, tiles, args);
  }
  ShrinkSome<Format, R>(tiles, args);
}

// S of `rows` (at most MostShrinkRows()) rows for `tiles` (1, 2 or 4, at most ShrinkTilesFor(rows))
// rank tiles.
inline void Shrink(DType dtype, int rows, int tiles, const ShrinkArgs& args) {
  switch (dtype) {
    case DType::kBF16:
      return ShrinkRows<Bf16Format<8>>(rows, tiles, args);
    case DType::kF16:
      return ShrinkRows<F16Format<8>>(rows, tiles, args);
    default:
      return ShrinkRows<F32Format<8>>(rows, tiles, args);
  }
}

struct ExpandArgs {
  const float* s = nullptr;  // [rows][tiles * 8], s_stride floats apart
  int64_t s_stride = 0;
  std::span<const lora::TileRef> tiles;
  int64_t k = 0;         // of the site: where B begins in a tile
  int64_t panel = 0;     // first panel of 16 columns
  float* acc = nullptr;  // in and out: [rows][acc_stride]
  int64_t acc_stride = 0;
};

template <int R, int P, class Format>
HWY_INLINE void ExpandTile(const float* s, int64_t s_stride, const std::byte* b, W16 (&acc)[R][P]) {
  constexpr int64_t kPanel = 4 * Format::kPairBytes;
  for (int pair = 0; pair < 4; ++pair, b += Format::kPairBytes, s += 2) {
    W16 weights[P];
    LORICA_UNROLL
    for (int p = 0; p < P; ++p) weights[p] = Format::Even(b + p * kPanel);
    LORICA_UNROLL
    for (int r = 0; r < R; ++r) {
      const W16 ss = Splat<16>(s[r * s_stride]);
      LORICA_UNROLL
      for (int p = 0; p < P; ++p) acc[r][p] = FmaW(weights[p], ss, acc[r][p]);
    }
    LORICA_UNROLL
    for (int p = 0; p < P; ++p) weights[p] = Format::Odd(b + p * kPanel);
    LORICA_UNROLL
    for (int r = 0; r < R; ++r) {
      const W16 ss = Splat<16>(s[r * s_stride + 1]);
      LORICA_UNROLL
      for (int p = 0; p < P; ++p) acc[r][p] = FmaW(weights[p], ss, acc[r][p]);
    }
  }
}

template <int R, int P>
void ExpandTiles(const ExpandArgs& args) {
  W16 acc[R][P];
  LORICA_UNROLL
  for (int r = 0; r < R; ++r) {
    LORICA_UNROLL
    for (int p = 0; p < P; ++p) acc[r][p] = Load<16>(args.acc + r * args.acc_stride + p * 16);
  }
  const float* s = args.s;
  for (const lora::TileRef& tile : args.tiles) {
    const std::byte* b =
        tile.address + TileABytes(tile.dtype, args.k) + args.panel * TileBPanelBytes(tile.dtype);
    switch (tile.dtype) {
      case DType::kBF16:
        ExpandTile<R, P, Bf16Format<16>>(s, args.s_stride, b, acc);
        break;
      case DType::kF16:
        ExpandTile<R, P, F16Format<16>>(s, args.s_stride, b, acc);
        break;
      default:
        ExpandTile<R, P, F32Format<16>>(s, args.s_stride, b, acc);
        break;
    }
    s += 8;
  }
  LORICA_UNROLL
  for (int r = 0; r < R; ++r) {
    LORICA_UNROLL
    for (int p = 0; p < P; ++p) Store<16>(acc[r][p], args.acc + r * args.acc_stride + p * 16);
  }
}

template <int P, int R = kExpandRows>
void ExpandSome(int64_t rows, const ExpandArgs& args) {
  if constexpr (R > 1) {
    if (rows < R) return ExpandSome<P, R - 1>(rows, args);
  }
  ExpandTiles<R, P>(args);
}

template <int P>
void ExpandRows(int64_t rows, ExpandArgs args) {
  while (rows > 0) {
    const int64_t now = rows < kExpandRows ? rows : kExpandRows;
    ExpandSome<P>(now, args);
    args.s += now * args.s_stride;
    args.acc += now * args.acc_stride;
    rows -= now;
  }
}

// acc[rows, panels * 16] += S * B^T, the tiles in order, the ranks in order.
inline void Expand(int64_t rows, int64_t panels, ExpandArgs args) {
  while (panels > 0) {
    const int64_t now = panels >= 2 ? 2 : 1;
    if (now == 2) {
      ExpandRows<2>(rows, args);
    } else {
      ExpandRows<1>(rows, args);
    }
    args.panel += now;
    args.acc += now * 16;
    panels -= now;
  }
}

}  // namespace lorica::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
