// RMSNorm, RoPE, SwiGLU and the sampling reductions. Sums run in 16 virtual lanes and one fixed
// fold; tails go through the same functions as whole vectors.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "lorica/base/thread_pool.h"
#include "lorica/kernels/cpu/lanes-inl.h"
#include "lorica/kernels/params.h"

#if defined(LORICA_KERNELS_CPU_POINTWISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_KERNELS_CPU_POINTWISE_INL_H_
#undef LORICA_KERNELS_CPU_POINTWISE_INL_H_
#else
#define LORICA_KERNELS_CPU_POINTWISE_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace lorica::kernels::cpu::HWY_NAMESPACE {

inline void NormRow(const RmsNormParams& p, const float* x, float* y) {
  W16 squares = Splat<16>(0.0f);
  for (int64_t i = 0; i < p.width; i += 16) {
    const W16 v = LoadFirst(x + i, p.width - i, 0.0f);
    squares = FmaW(v, v, squares);
  }
  const float mean = FoldSum(squares) / static_cast<float>(p.width);
  const W16 factor = Splat<16>(1.0f / std::sqrt(mean + p.epsilon));
  for (int64_t i = 0; i < p.width; i += 16) {
    const int64_t left = p.width - i;
    const W16 v = MulW(LoadFirst(x + i, left, 0.0f), factor);
    StoreFirst(MulW(v, LoadFirst(p.weight + i, left, 0.0f)), y + i, left);
  }
}

inline void RmsNorm(const RmsNormParams& p, const TeamMember& member) {
  const IndexRange rows = SplitRange(p.rows, member);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    NormRow(p, p.x + row * p.x_stride, p.y + row * p.y_stride);
  }
}

inline void RotateHead(const float* cosines, const float* sines, int64_t half, float* head) {
  for (int64_t i = 0; i < half; i += 16) {
    const int64_t left = half - i;
    const W16 c = LoadFirst(cosines + i, left, 0.0f);
    const W16 s = LoadFirst(sines + i, left, 0.0f);
    const W16 a = LoadFirst(head + i, left, 0.0f);
    const W16 b = LoadFirst(head + half + i, left, 0.0f);
    StoreFirst(SubW(MulW(a, c), MulW(b, s)), head + i, left);
    StoreFirst(AddW(MulW(b, c), MulW(a, s)), head + half + i, left);
  }
}

inline void Rope(const RopeParams& p, const TeamMember& member) {
  const IndexRange rows = SplitRange(p.rows, member);
  const int64_t half = p.rotary_dims / 2;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const float* cosines = p.cos_table + p.positions[row] * half;
    const float* sines = p.sin_table + p.positions[row] * half;
    for (int64_t h = 0; h < p.heads; ++h) {
      RotateHead(cosines, sines, half, p.q + row * p.q_stride + h * p.head_dim);
    }
    for (int64_t h = 0; h < p.kv_heads; ++h) {
      RotateHead(cosines, sines, half, p.k + row * p.k_stride + h * p.head_dim);
    }
  }
}

inline void SwiGlu(const SwiGluParams& p, const TeamMember& member) {
  // Split by vectors of the whole [rows, width], so that one row keeps every thread busy.
  const int64_t vectors = (p.width + 15) / 16;
  const IndexRange range = SplitRange(p.rows * vectors, member);
  const W16 one = Splat<16>(1.0f);
  for (int64_t at = range.begin; at < range.end; ++at) {
    const int64_t row = at / vectors;
    const int64_t i = at % vectors * 16;
    const int64_t left = p.width - i;
    const W16 gate = LoadFirst(p.gate + row * p.gate_stride + i, left, 0.0f);
    const W16 up = LoadFirst(p.up + row * p.up_stride + i, left, 0.0f);
    const W16 silu = DivW(gate, AddW(one, ExpW(SubW(Splat<16>(0.0f), gate))));
    StoreFirst(MulW(silu, up), p.y + row * p.y_stride + i, left);
  }
}

// Sums of exp are cut at multiples of this many ids.
inline constexpr int64_t kVocabBlock = 4096;

inline RowStats StatsOfRow(const float* logits, int64_t vocab) {
  RowStats stats;
  const float lowest = -std::numeric_limits<float>::infinity();
  W16 max = Splat<16>(lowest);
  W16 not_finite = Splat<16>(0.0f);  // x - x is 0 for what is finite and NaN else
  for (int64_t i = 0; i < vocab; i += 16) {
    const W16 x = LoadFirst(logits + i, vocab - i, lowest);
    max = MaxW(max, x);
    const W16 probe = SelectFirst(x, vocab - i, 0.0f);
    not_finite = AddW(not_finite, SubW(probe, probe));
  }
  stats.max = FoldMax(max);
  stats.finite = FoldSum(not_finite) == 0.0f;
  if (!stats.finite) return stats;
  int64_t at = 0;
  while (logits[at] != stats.max) ++at;
  stats.argmax = static_cast<int32_t>(at);
  const W16 shift = Splat<16>(stats.max);
  for (int64_t block = 0; block < vocab; block += kVocabBlock) {
    const int64_t end = std::min(vocab, block + kVocabBlock);
    W16 sum = Splat<16>(0.0f);
    for (int64_t i = block; i < end; i += 16) {
      const W16 e = ExpW(SubW(LoadFirst(logits + i, end - i, stats.max), shift));
      sum = AddW(sum, SelectFirst(e, end - i, 0.0f));
    }
    stats.sum_exp += static_cast<double>(FoldSum(sum));
  }
  return stats;
}

inline void LogitStats(const LogitStatsParams& p, const TeamMember& member) {
  const IndexRange rows = SplitRange(p.rows, member);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    p.stats[row] = StatsOfRow(p.logits + row * p.stride, p.vocab);
  }
}

}  // namespace lorica::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
