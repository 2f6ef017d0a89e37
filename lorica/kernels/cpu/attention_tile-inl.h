// The two products of attention, queries times K and weights times V, on pages of
// each K/V type. As many chains run side by side as hide the multiply-add's
// latency: queries times pages, queries times columns. Each score is one chain
// along head_dim and each output one over positions, whatever runs beside them.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lorica/kernels/cpu/lanes-inl.h"
#include "lorica/kernels/params.h"

#if defined(LORICA_KERNELS_CPU_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_KERNELS_CPU_ATTENTION_TILE_INL_H_
#undef LORICA_KERNELS_CPU_ATTENTION_TILE_INL_H_
#else
#define LORICA_KERNELS_CPU_ATTENTION_TILE_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace lorica::kernels::cpu::HWY_NAMESPACE {

// Sets for old machines take queries one by one, so that they compile quickly.
inline constexpr bool kManyQueries = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3;
inline constexpr int kMostQueries = HWY_TARGET == HWY_AVX3 ? 8 : 6;  // of a group

// Pages, or vectors of V's columns, that Q queries meet side by side: what the
// registers hold.
template <int Q>
inline constexpr int kAbreast = HWY_TARGET == HWY_AVX3   ? (Q == 8 ? 2 : 4)
                                : HWY_TARGET == HWY_AVX2 ? (Q == 1   ? 4
                                                            : Q <= 3 ? 2
                                                                     : 1)
                                                         : 1;

// 16 stored elements as f32, whole numbers where the type has scales.
struct KvF32 {
  using T = float;
  static constexpr bool kScaled = false;
  static HWY_INLINE W16 Load16(const float* from) { return Load<16>(from); }
};
struct KvBf16 {
  using T = uint16_t;
  static constexpr bool kScaled = false;
  static HWY_INLINE W16 Load16(const uint16_t* from) {
    const W16::D d;
    const hn::RebindToUnsigned<W16::D> du;
    const hn::Rebind<uint16_t, W16::D> dh;
    W16 out;
    LORICA_UNROLL
    for (int i = 0; i < W16::kParts; ++i) {
      const auto wide = hn::PromoteTo(du, hn::LoadU(dh, from + i * W16::kLanes));
      out.v[i] = hn::BitCast(d, hn::ShiftLeft<16>(wide));
    }
    return out;
  }
};
struct KvF16 {
  using T = uint16_t;
  static constexpr bool kScaled = false;
  static HWY_INLINE W16 Load16(const uint16_t* from) {
    return LoadF16<16>(reinterpret_cast<const std::byte*>(from));
  }
};
struct KvI8 {
  using T = int8_t;
  static constexpr bool kScaled = true;
  static HWY_INLINE W16 Load16(const int8_t* from) {
    const W16::D d;
    const hn::RebindToSigned<W16::D> di;
    const hn::Rebind<int8_t, W16::D> db;
    W16 out;
    LORICA_UNROLL
    for (int i = 0; i < W16::kParts; ++i) {
      out.v[i] = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(db, from + i * W16::kLanes)));
    }
    return out;
  }
};
// The first n elements, the others zero: nothing past them is read.
template <class Kv>
HWY_INLINE W16 LoadKvFirst(const typename Kv::T* from, int64_t n) {
  if (n >= 16) return Kv::Load16(from);
  typename Kv::T lanes[16] = {};
  std::copy_n(from, n, lanes);
  return Kv::Load16(lanes);
}

// K or V of a head in the pages of a block of positions, in the order in which they are read: K of
// each page, then V; at the end what is read after the block. While one is multiplied, that
// kAhead further on is fetched.
struct PageList {
  static constexpr int kPages = kAttentionBlock / kPageTokens;
  static constexpr int kAhead = 4;

  const std::byte* at[2 * kPages + kAhead];
  int pages = 0;

  const std::byte* key(int64_t page) const { return at[page]; }
  const std::byte* value(int64_t page) const { return at[pages + page]; }
};

// Of int8, from where K of a page begins.
HWY_INLINE const float* ScalesOfK(const std::byte* keys, int64_t head_dim) {
  return reinterpret_cast<const float*>(keys + head_dim * kPageTokens);
}
HWY_INLINE const float* ScalesOfV(const std::byte* keys, int64_t head_dim) {
  return ScalesOfK(keys, head_dim) + kPageTokens;
}

// One step along head_dim.
template <class Kv, int Q, int P>
HWY_INLINE void ScoreDim(const typename Kv::T* const (&keys)[P], const float* q, int64_t d,
                         W16 (&sum)[Q][P]) {
  W16 k[P];
  LORICA_UNROLL
  for (int j = 0; j < P; ++j) k[j] = Kv::Load16(keys[j] + d * kPageTokens);
  LORICA_UNROLL
  for (int i = 0; i < Q; ++i) {
    const W16 value = Splat<16>(q[d * Q + i]);
    LORICA_UNROLL
    for (int j = 0; j < P; ++j) sum[i][j] = FmaW(k[j], value, sum[i][j]);
  }
}

// Scores of Q queries against P pages of K.
template <class Kv, int Q, int P>
HWY_INLINE void ScorePages(const std::byte* const* pages, int64_t head_dim, const float* q,
                           const W16& scale, float* scores) {
  using T = typename Kv::T;
  constexpr int64_t kRows = std::max<int64_t>(1, 64 / (16 * sizeof(T)));  // of a line
  const T* keys[P];
  W16 sum[Q][P];
  LORICA_UNROLL
  for (int j = 0; j < P; ++j) {
    keys[j] = reinterpret_cast<const T*>(pages[j]);
    LORICA_UNROLL
    for (int i = 0; i < Q; ++i) sum[i][j] = Splat<16>(0.0f);
  }
  int64_t d = 0;
  for (; d + kRows <= head_dim; d += kRows) {
    LORICA_UNROLL
    for (int j = 0; j < P; ++j) {
      hwy::Prefetch(pages[j + PageList::kAhead] + d * kPageTokens * sizeof(T));
    }
    LORICA_UNROLL
    for (int64_t r = 0; r < kRows; ++r) ScoreDim<Kv, Q, P>(keys, q, d + r, sum);
  }
  for (; d < head_dim; ++d) ScoreDim<Kv, Q, P>(keys, q, d, sum);
  LORICA_UNROLL
  for (int j = 0; j < P; ++j) {
    W16 scale_of_k = scale;
    if constexpr (Kv::kScaled) {
      scale_of_k = Load<16>(ScalesOfK(pages[j], head_dim));
      hwy::Prefetch(ScalesOfK(pages[j + PageList::kAhead], head_dim));
      hwy::Prefetch(ScalesOfV(pages[j + PageList::kAhead], head_dim));
    }
    LORICA_UNROLL
    for (int i = 0; i < Q; ++i) {
      W16 score = MulW(sum[i][j], scale_of_k);
      if constexpr (Kv::kScaled) score = MulW(score, scale);
      Store<16>(score, scores + i * kAttentionBlock + j * kPageTokens);
    }
  }
}

// What a run of weights times V needs beside the pages.
struct WeighArgs {
  int64_t head_dim = 0;
  int64_t column = 0;              // of V, the first
  IndexRange positions;            // of the block
  const float* weights = nullptr;  // [Q][kAttentionBlock]
  float* out = nullptr;            // [Q][out_stride], its first column is `column`
  int64_t out_stride = 0;
};

// out[Q][16 * C columns] += sum over the positions of weight * V. C = 1 takes the last columns, of
// which there may be fewer than 16.
template <class Kv, int Q, int C>
HWY_INLINE void WeighPages(const PageList& list, const WeighArgs& a) {
  using T = typename Kv::T;
  constexpr int64_t kBytes = 16 * C * sizeof(T);
  W16 sum[Q][C];
  LORICA_UNROLL
  for (int i = 0; i < Q; ++i) {
    LORICA_UNROLL
    for (int c = 0; c < C; ++c) sum[i][c] = Load<16>(a.out + i * a.out_stride + c * 16);
  }
  for (int64_t t = a.positions.begin; t < a.positions.end;) {
    const int64_t page = t / kPageTokens;
    const int64_t end = std::min<int64_t>((page + 1) * kPageTokens, a.positions.end);
    const int64_t offset = (t % kPageTokens * a.head_dim + a.column) * int64_t{sizeof(T)};
    const std::byte* from = list.value(page) + offset;
    const std::byte* ahead = list.value(page + PageList::kAhead) + offset;
    for (; t < end; ++t) {
      LORICA_UNROLL
      for (int64_t line = 0; line < kBytes; line += 64) hwy::Prefetch(ahead + line);
      const T* values = reinterpret_cast<const T*>(from);
      W16 v[C];
      if constexpr (C == 1) {
        v[0] = LoadKvFirst<Kv>(values, a.head_dim - a.column);
      } else {
        LORICA_UNROLL
        for (int c = 0; c < C; ++c) v[c] = Kv::Load16(values + c * 16);
      }
      LORICA_UNROLL
      for (int i = 0; i < Q; ++i) {
        const W16 weight = Splat<16>(a.weights[i * kAttentionBlock + t]);
        LORICA_UNROLL
        for (int c = 0; c < C; ++c) sum[i][c] = FmaW(v[c], weight, sum[i][c]);
      }
      from += a.head_dim * int64_t{sizeof(T)};
      ahead += a.head_dim * int64_t{sizeof(T)};
    }
  }
  LORICA_UNROLL
  for (int i = 0; i < Q; ++i) {
    LORICA_UNROLL
    for (int c = 0; c < C; ++c) Store<16>(sum[i][c], a.out + i * a.out_stride + c * 16);
  }
}

}  // namespace lorica::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
