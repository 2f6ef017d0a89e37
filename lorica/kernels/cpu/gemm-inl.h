// The register tiles of the base product: R packed rows of x by P panels of 16
// columns, each output element in chains along k of kChainPairs (packing.h). Which R
// and P a call uses never changes a bit.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "lorica/kernels/cpu/lanes-inl.h"
#include "lorica/kernels/cpu/packing.h"
#include "lorica/kernels/cpu/tile_args.h"

#if defined(LORICA_KERNELS_CPU_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_KERNELS_CPU_GEMM_INL_H_
#undef LORICA_KERNELS_CPU_GEMM_INL_H_
#else
#define LORICA_KERNELS_CPU_GEMM_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace lorica::kernels::cpu::HWY_NAMESPACE {

// Registers decide: accumulators take R * P * W16::kParts of them.
#if HWY_TARGET == HWY_AVX3
inline constexpr int kMaxTileRows = 16;
inline constexpr int kTileBudget = 25;
#elif HWY_TARGET == HWY_AVX2
inline constexpr int kMaxTileRows = 6;
inline constexpr int kTileBudget = 7;
#else
// Sets for old machines: few tiles, so that they compile quickly.
inline constexpr int kMaxTileRows = 3;
inline constexpr int kTileBudget = 3;
#endif
inline constexpr int kMaxTilePanels = 4;

constexpr bool TileFits(int rows, int panels) {
  // The decoded weights of each panel take a register beside the accumulators.
  return rows >= 1 && rows <= kMaxTileRows && rows * panels + panels - 1 <= kTileBudget;
}

// How far ahead of its use a line of weights is asked for, in each panel; best of those tried
// (4096² on AVX2, 512 bytes against 2048: one row 0.55 and 0.41 ms, two 0.67 and 0.50, three 0.77
// and 0.60). On AVX2 a tall tile walks one panel alone, and a page ahead covers the borders of
// pages, where the processor's own prefetcher stops.
constexpr int64_t PrefetchBytes(int rows, int panels) {
#if HWY_TARGET == HWY_AVX3
  static_cast<void>(rows + panels);
  return 2048;
#else
  return panels == 1 && rows > 2 ? 4096 : 2048;
#endif
}

template <int R, int P>
struct Accumulators {
  W16 v[R][P];
};

// Panels one after another: x is read again for each, but only one panel's weights take registers.
template <int R, int P>
constexpr bool PanelByPanel() {
  return HWY_TARGET == HWY_AVX2 && R * P > 5 && P > 1;
}

template <int R, int P, class Format>
HWY_INLINE void MultiplyPair(const float* x, const std::byte* w, int64_t panel_bytes,
                             Accumulators<R, P>* acc) {
  if constexpr (PanelByPanel<R, P>()) {
    LORICA_UNROLL
    for (int p = 0; p < P; ++p) {
      W16 weights = Format::Even(w + p * panel_bytes);
      LORICA_UNROLL
      for (int r = 0; r < R; ++r) acc->v[r][p] = FmaW(weights, Splat<16>(x[2 * r]), acc->v[r][p]);
      weights = Format::Odd(w + p * panel_bytes);
      LORICA_UNROLL
      for (int r = 0; r < R; ++r) {
        acc->v[r][p] = FmaW(weights, Splat<16>(x[2 * r + 1]), acc->v[r][p]);
      }
    }
    return;
  }
  W16 weights[P];
  LORICA_UNROLL
  for (int p = 0; p < P; ++p) weights[p] = Format::Even(w + p * panel_bytes);
  LORICA_UNROLL
  for (int r = 0; r < R; ++r) {
    const W16 xs = Splat<16>(x[2 * r]);
    LORICA_UNROLL
    for (int p = 0; p < P; ++p) acc->v[r][p] = FmaW(weights[p], xs, acc->v[r][p]);
  }
  LORICA_UNROLL
  for (int p = 0; p < P; ++p) weights[p] = Format::Odd(w + p * panel_bytes);
  LORICA_UNROLL
  for (int r = 0; r < R; ++r) {
    const W16 xs = Splat<16>(x[2 * r + 1]);
    LORICA_UNROLL
    for (int p = 0; p < P; ++p) acc->v[r][p] = FmaW(weights[p], xs, acc->v[r][p]);
  }
}

template <int R, int P>
HWY_INLINE void AddToTotals(const Accumulators<R, P>& acc, float* totals) {
  LORICA_UNROLL
  for (int r = 0; r < R; ++r) {
    LORICA_UNROLL
    for (int p = 0; p < P; ++p) {
      float* to = totals + (r * P + p) * 16;
      Store<16>(AddW(Load<16>(to), acc.v[r][p]), to);
    }
  }
}

// acc += x * W^T, block by block.
template <int R, int P, class Format>
void BaseTile(const TileArgs& args) {
  const auto* x = reinterpret_cast<const float*>(args.x);
  const std::byte* w = args.w;
  const std::byte* ahead = args.ahead;
  const int64_t ahead_step = args.ahead_step;
  const int64_t panel_bytes = args.panel_bytes;
  // The list ends with a line that is fetched again and again: cheaper than a
  // second loop.
  const std::byte* const* line = args.prefetch;
  const std::byte* const* const last = args.prefetch_last;
  for (int64_t left = args.pairs; left > 0; left -= kChainPairs) {
    Accumulators<R, P> acc;
    LORICA_UNROLL
    for (int r = 0; r < R; ++r) {
      LORICA_UNROLL
      for (int p = 0; p < P; ++p) acc.v[r][p] = Splat<16>(0.0f);
    }
    for (int64_t pair = std::min(left, kChainPairs); pair > 0; --pair) {
      hwy::Prefetch(*line);
      line += line < last ? 1 : 0;
      LORICA_UNROLL
      for (int p = 0; p < P; ++p) hwy::Prefetch(ahead + p * panel_bytes);
      ahead += ahead_step;
      MultiplyPair<R, P, Format>(x, w, panel_bytes, &acc);
      x += 2 * R;
      w += Format::kPairBytes;
    }
    AddToTotals(acc, args.acc);
  }
}

template <class Format, int P, int R>
constexpr TileFunction TileOrNull() {
  if constexpr (TileFits(R, P)) {
    return &BaseTile<R, P, Format>;
  } else {
    return nullptr;
  }
}
// [0]: one panel, [1]: two, [2]: four; then by rows - 1.
using TileTable = std::array<std::array<TileFunction, kMaxTileRows>, 3>;
template <class Format, int P, int... R>
constexpr std::array<TileFunction, kMaxTileRows> TileRow(std::integer_sequence<int, R...>) {
  return {TileOrNull<Format, P, R + 1>()...};
}
template <class Format>
constexpr TileTable MakeTileTable() {
  constexpr auto kRows = std::make_integer_sequence<int, kMaxTileRows>();
  return {TileRow<Format, 1>(kRows), TileRow<Format, 2>(kRows), TileRow<Format, 4>(kRows)};
}

inline TileFunction BaseTileFor(DType dtype, int rows, int panels) {
  static constexpr TileTable kBf16 = MakeTileTable<Bf16Format<16>>();
  static constexpr TileTable kF16 = MakeTileTable<F16Format<16>>();
  static constexpr TileTable kF32 = MakeTileTable<F32Format<16>>();
  const TileTable& table = dtype == DType::kBF16 ? kBf16 : dtype == DType::kF16 ? kF16 : kF32;
  return table[static_cast<size_t>(panels / 2)][static_cast<size_t>(rows - 1)];
}

}  // namespace lorica::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
