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
  const IndexRange items = SplitRange(p.rows * p.kv_heads, member);
  const int64_t half = p.rotary_dims / 2;
  const int64_t group = p.heads / p.kv_heads;
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t row = item / p.kv_heads;
    const int64_t kv_head = item % p.kv_heads;
    const float* cosines = p.cos_table + p.positions[row] * half;
    const float* sines = p.sin_table + p.positions[row] * half;
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      RotateHead(cosines, sines, half, p.q + row * p.q_stride + h * p.head_dim);
    }
    RotateHead(cosines, sines, half, p.k + row * p.k_stride + kv_head * p.head_dim);
  }
}

inline void SwiGlu(const SwiGluParams& p, const TeamMember& member) {
  // Split by vectors of the whole [rows, width], so that one row keeps every thread busy.
  const int64_t vectors = (p.width + 15) / 16;
  const IndexRange range = SplitRange(p.rows * vectors, member);
  for (int64_t at = range.begin; at < range.end; ++at) {
    const int64_t row = at / vectors;
    const int64_t i = at % vectors * 16;
    const int64_t left = p.width - i;
    const W16 gate = LoadFirst(p.gate + row * p.gate_stride + i, left, 0.0f);
    const W16 up = LoadFirst(p.up + row * p.up_stride + i, left, 0.0f);
    StoreFirst(SwiGluW(gate, up), p.y + row * p.y_stride + i, left);
  }
}

inline IndexRange VocabBlock(int64_t block, int64_t vocab) {
  return {block * kVocabBlock, std::min(vocab, (block + 1) * kVocabBlock)};
}

// Greatest logit of a block, and whether all are finite.
inline VocabBlockStats MaxOfBlock(const float* logits, IndexRange ids) {
  const float lowest = -std::numeric_limits<float>::infinity();
  W16 max = Splat<16>(lowest);
  W16 not_finite = Splat<16>(0.0f);  // x - x is 0 for what is finite and NaN else
  for (int64_t i = ids.begin; i < ids.end; i += 16) {
    const W16 x = LoadFirst(logits + i, ids.end - i, lowest);
    max = MaxW(max, x);
    const W16 probe = SelectFirst(x, ids.end - i, 0.0f);
    not_finite = AddW(not_finite, SubW(probe, probe));
  }
  VocabBlockStats stats;
  stats.max = FoldMax(max);
  stats.finite = FoldSum(not_finite) == 0.0f;
  return stats;
}

inline double SumOfBlock(const float* logits, IndexRange ids, float max) {
  const W16 shift = Splat<16>(max);
  W16 sum = Splat<16>(0.0f);
  for (int64_t i = ids.begin; i < ids.end; i += 16) {
    const W16 e = ExpW(SubW(LoadFirst(logits + i, ids.end - i, max), shift));
    sum = AddW(sum, SelectFirst(e, ids.end - i, 0.0f));
  }
  return static_cast<double>(FoldSum(sum));
}

// A row's blocks in order, once each has its maximum.
inline RowStats MaxOfRow(const VocabBlockStats* blocks, int64_t count) {
  RowStats stats;
  stats.max = blocks[0].max;
  for (int64_t i = 0; i < count; ++i) {
    stats.finite = stats.finite && blocks[i].finite;
    stats.max = blocks[i].max > stats.max ? blocks[i].max : stats.max;
  }
  return stats;
}

// Threads take rows where these keep all of them busy, else blocks of rows.
inline void LogitStats(const LogitStatsParams& p, const TeamMember& member) {
  const int64_t blocks = VocabBlocks(p.vocab);
  const bool by_row = p.rows % member.threads == 0 || p.rows >= 8 * member.threads;
  const IndexRange rows = SplitRange(p.rows, member);
  const IndexRange items = by_row ? IndexRange{rows.begin * blocks, rows.end * blocks}
                                  : SplitRange(p.rows * blocks, member);
  const auto logits = [&](int64_t row) { return p.logits + row * p.stride; };
  for (int64_t item = items.begin; item < items.end; ++item) {
    p.blocks[item] = MaxOfBlock(logits(item / blocks), VocabBlock(item % blocks, p.vocab));
  }
  if (!by_row) member.Sync();
  for (int64_t item = items.begin; item < items.end;) {
    const int64_t row = item / blocks;
    const int64_t end = std::min(items.end, (row + 1) * blocks);
    const RowStats stats = MaxOfRow(p.blocks + row * blocks, blocks);
    for (; item < end; ++item) {
      if (!stats.finite) continue;
      p.blocks[item].sum_exp =
          SumOfBlock(logits(row), VocabBlock(item % blocks, p.vocab), stats.max);
    }
  }
  if (!by_row) member.Sync();
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const VocabBlockStats* of_row = p.blocks + row * blocks;
    RowStats stats = MaxOfRow(of_row, blocks);
    if (stats.finite) {
      int64_t first = 0;
      while (of_row[first].max != stats.max) ++first;
      int64_t at = first * kVocabBlock;
      while (logits(row)[at] != stats.max) ++at;
      stats.argmax = static_cast<int32_t>(at);
      for (int64_t i = 0; i < blocks; ++i) stats.sum_exp += of_row[i].sum_exp;
    }
    p.stats[row] = stats;
  }
}

}  // namespace lorica::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
