// The two halves of LoRA on rank tiles of 8: shrink (S = scale * x * A^T, two
// chains along k: pairs modulo 2, added once) and expand (the base product's
// accumulators go on along the ranks).

#include <cstddef>
#include <cstdint>
#include <span>

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

#if HWY_TARGET == HWY_AVX3
inline constexpr int kShrinkRows = 8;
#elif HWY_TARGET == HWY_AVX2
inline constexpr int kShrinkRows = 4;
#else
inline constexpr int kShrinkRows = 1;
#endif
inline constexpr int kExpandRows = kShrinkRows < 4 ? kShrinkRows : 4;

struct ShrinkArgs {
  const float* x = nullptr;  // element (pair, row, parity) at pair *
                             // x_pair_stride + row * 2 + parity
  int64_t x_pair_stride = 0;
  int64_t pairs = 0;
  const std::byte* a = nullptr;
  float scale = 1.0f;
  float* s = nullptr;  // [rows][8], s_stride floats apart
  int64_t s_stride = 0;
};

template <int R, class Format>
HWY_INLINE void ShrinkPair(const float* x, const std::byte* a, Wide<8> (&chain)[R]) {
  const Wide<8> even = Format::Even(a);
  LORICA_UNROLL
  for (int r = 0; r < R; ++r) chain[r] = FmaW(even, Splat<8>(x[2 * r]), chain[r]);
  const Wide<8> odd = Format::Odd(a);
  LORICA_UNROLL
  for (int r = 0; r < R; ++r) chain[r] = FmaW(odd, Splat<8>(x[2 * r + 1]), chain[r]);
}

template <int R, class Format>
void ShrinkTile(const ShrinkArgs& args) {
  Wide<8> chain0[R];
  Wide<8> chain1[R];
  LORICA_UNROLL
  for (int r = 0; r < R; ++r) chain0[r] = chain1[r] = Splat<8>(0.0f);
  const float* x = args.x;
  const std::byte* a = args.a;
  int64_t pair = 0;
  for (; pair + 2 <= args.pairs; pair += 2) {
    hwy::Prefetch(a + 1024);
    ShrinkPair<R, Format>(x, a, chain0);
    ShrinkPair<R, Format>(x + args.x_pair_stride, a + Format::kPairBytes, chain1);
    x += 2 * args.x_pair_stride;
    a += 2 * Format::kPairBytes;
  }
  if (pair < args.pairs) ShrinkPair<R, Format>(x, a, chain0);
  const Wide<8> scale = Splat<8>(args.scale);
  LORICA_UNROLL
  for (int r = 0; r < R; ++r) {
    Store<8>(MulW(AddW(chain0[r], chain1[r]), scale), args.s + r * args.s_stride);
  }
}

template <class Format, int R = kShrinkRows>
void ShrinkRows(int rows, const ShrinkArgs& args) {
  if constexpr (R > 1) {
    if (rows < R) return ShrinkRows<Format, R - 1>(rows, args);
  }
  ShrinkTile<R, Format>(args);
}

// S of `rows` (at most kShrinkRows) rows for one rank tile.
inline void Shrink(DType dtype, int rows, const ShrinkArgs& args) {
  switch (dtype) {
    case DType::kBF16:
      return ShrinkRows<Bf16Format<8>>(rows, args);
    case DType::kF16:
      return ShrinkRows<F16Format<8>>(rows, args);
    default:
      return ShrinkRows<F32Format<8>>(rows, args);
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
