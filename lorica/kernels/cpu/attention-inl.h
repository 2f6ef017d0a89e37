// Paged attention. A work item is a tile of (row,
// head) queries of one sequence that share a kv head; K and V of a page are
// loaded once for all of them. For each block of 256 absolute positions: scores
// (one chain along head_dim a position), maximum, exp, sum in 16 virtual lanes,
// P * V as one chain over positions; then the block's partial is merged into
// the running one, in order. Masked positions are selected away, never
// multiplied.

#include <algorithm>
#include <cstdint>
#include <limits>

#include "lorica/base/thread_pool.h"
#include "lorica/kernels/cpu/lanes-inl.h"
#include "lorica/kernels/params.h"

#if defined(LORICA_KERNELS_CPU_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LORICA_KERNELS_CPU_ATTENTION_INL_H_
#undef LORICA_KERNELS_CPU_ATTENTION_INL_H_
#else
#define LORICA_KERNELS_CPU_ATTENTION_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace lorica::kernels::cpu::HWY_NAMESPACE {

inline constexpr int kQueries = 8;  // of a tile
// Sets for old machines take queries one by one, so that they compile quickly.
inline constexpr bool kManyQueries = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3;

// 16 stored elements as f32.
struct KvF32 {
  using T = float;
  static HWY_INLINE W16 Load16(const float* from) { return Load<16>(from); }
};
struct KvBf16 {
  using T = uint16_t;
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
  static HWY_INLINE W16 Load16(const uint16_t* from) {
    return LoadF16<16>(reinterpret_cast<const std::byte*>(from));
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

// A thread's scratch, cut up. Queries are padded to whole vectors of head_dim.
struct AttentionScratch {
  float* q;          // [head_dim][queries]
  float* scores;     // [kQueries][kAttentionBlock]
  float* block_out;  // [kQueries][padded head_dim]
  float* out;        // [kQueries][padded head_dim]
};

struct QueryTile {
  const AttentionSequence* sequence = nullptr;
  int32_t kv_head = 0;
  int32_t first_row = 0;  // of the sequence's rows
  int32_t rows = 0;
  int32_t first_head = 0;  // of the group
  int32_t heads = 0;
  int32_t first_query = 0;  // of a group of queries that run together
  int32_t count() const { return rows * heads; }
  // Query i of the group, in (row, head) order of the tile.
  int32_t Place(int32_t i) const { return first_query + i; }
  // Positions that query i attends to: [0, Length(i)).
  int64_t Length(int32_t i) const {
    return int64_t{sequence->position_begin} + first_row + Place(i) / heads + 1;
  }
};

// Scores of Q queries against one page.
template <class Kv, int Q>
HWY_INLINE void ScorePage(const typename Kv::T* keys, int64_t head_dim, const float* q,
                          const W16& scale, float* scores) {
  W16 sum[Q];
  LORICA_UNROLL
  for (int i = 0; i < Q; ++i) sum[i] = Splat<16>(0.0f);
  for (int64_t d = 0; d < head_dim; ++d) {
    const W16 k = Kv::Load16(keys + d * kPageTokens);
    LORICA_UNROLL
    for (int i = 0; i < Q; ++i) sum[i] = FmaW(k, Splat<16>(q[d * Q + i]), sum[i]);
  }
  LORICA_UNROLL
  for (int i = 0; i < Q; ++i) Store<16>(MulW(sum[i], scale), scores + i * kAttentionBlock);
}

// out[Q][columns] += sum over `count` positions of p * V, for 16 columns of V.
template <class Kv, int Q>
HWY_INLINE void WeighPage(const typename Kv::T* values, int64_t head_dim, int64_t columns,
                          int64_t count, const float* p, float* out, int64_t out_stride) {
  W16 sum[Q];
  LORICA_UNROLL
  for (int i = 0; i < Q; ++i) sum[i] = Load<16>(out + i * out_stride);
  for (int64_t t = 0; t < count; ++t) {
    const W16 v = LoadKvFirst<Kv>(values + t * head_dim, columns);
    LORICA_UNROLL
    for (int i = 0; i < Q; ++i) sum[i] = FmaW(v, Splat<16>(p[i * kAttentionBlock + t]), sum[i]);
  }
  LORICA_UNROLL
  for (int i = 0; i < Q; ++i) Store<16>(sum[i], out + i * out_stride);
}

template <class Kv>
class Attender {
 public:
  using T = typename Kv::T;

  Attender(const AttentionParams& p, const TeamMember& member) : p_(p) {
    const int64_t head_dim = p.layout.head_dim;
    padded_ = (head_dim + 15) / 16 * 16;
    float* scratch = p.scratch + member.thread * AttentionScratchFloats(p.layout.head_dim);
    scratch_.q = scratch;
    scratch_.scores = scratch_.q + kQueries * padded_;
    scratch_.block_out = scratch_.scores + kQueries * kAttentionBlock;
    scratch_.out = scratch_.block_out + kQueries * padded_;
  }

  template <int Q>
  void Run(const QueryTile& tile) {
    PackQueries<Q>(tile);
    const int64_t longest = tile.Length(Q - 1);
    float max[Q] = {};
    float sum[Q] = {};
    for (int64_t block = 0; block < longest; block += kAttentionBlock) {
      ScoreBlock<Q>(tile, block, std::min<int64_t>(longest - block, kAttentionBlock));
      float block_max[Q] = {};
      float block_sum[Q] = {};
      for (int i = 0; i < Q; ++i) {
        const int64_t count = Count(tile, i, block);
        if (count > 0) Soften(i, count, &block_max[i], &block_sum[i]);
      }
      WeighBlock<Q>(tile, block);
      for (int i = 0; i < Q; ++i) {
        if (Count(tile, i, block) > 0) {
          Merge(i, block == 0, block_max[i], block_sum[i], &max[i], &sum[i]);
        }
      }
    }
    for (int i = 0; i < Q; ++i) Write(tile, i, sum[i]);
  }

 private:
  // Positions of the block that query i attends to.
  static int64_t Count(const QueryTile& tile, int32_t i, int64_t block) {
    return std::clamp<int64_t>(tile.Length(i) - block, 0, kAttentionBlock);
  }
  const T* Keys(const QueryTile& tile, int64_t position) const {
    const KvLayout& kv = p_.layout;
    const std::byte* layer = p_.pages +
                             tile.sequence->pages[position / kPageTokens] * kv.PageBytes() +
                             p_.layer * kv.LayerBytes();
    return reinterpret_cast<const T*>(layer) + int64_t{tile.kv_head} * kv.head_dim * kPageTokens;
  }
  const T* Values(const QueryTile& tile, int64_t position) const {
    const KvLayout& kv = p_.layout;
    return Keys(tile, position) + int64_t{kv.kv_heads} * kv.head_dim * kPageTokens;
  }
  int64_t Row(const QueryTile& tile, int32_t i) const {
    return tile.sequence->row_begin + tile.first_row + tile.Place(i) / tile.heads;
  }
  int64_t Column(const QueryTile& tile, int32_t i) const {
    const int32_t group = p_.heads / p_.layout.kv_heads;
    const int32_t head = tile.kv_head * group + tile.first_head + tile.Place(i) % tile.heads;
    return int64_t{head} * p_.layout.head_dim;
  }

  template <int Q>
  void PackQueries(const QueryTile& tile) {
    for (int i = 0; i < Q; ++i) {
      const float* q = p_.q + Row(tile, i) * p_.q_stride + Column(tile, i);
      for (int64_t d = 0; d < p_.layout.head_dim; ++d) scratch_.q[d * Q + i] = q[d];
    }
  }

  template <int Q>
  void ScoreBlock(const QueryTile& tile, int64_t block, int64_t count) {
    const W16 scale = Splat<16>(p_.scale);
    for (int64_t t = 0; t < count; t += kPageTokens) {
      ScorePage<Kv, Q>(Keys(tile, block + t), p_.layout.head_dim, scratch_.q, scale,
                       scratch_.scores + t);
    }
  }

  // Scores of query i become exp(score - max); the first `count` of the block
  // count.
  void Soften(int i, int64_t count, float* max, float* sum) {
    const float lowest = -std::numeric_limits<float>::infinity();
    float* scores = scratch_.scores + i * kAttentionBlock;
    W16 lanes = Splat<16>(lowest);
    for (int64_t t = 0; t < count; t += 16) {
      lanes = MaxW(lanes, SelectFirst(Load<16>(scores + t), count - t, lowest));
    }
    *max = FoldMax(lanes);
    const W16 shift = Splat<16>(*max);
    W16 total = Splat<16>(0.0f);
    for (int64_t t = 0; t < count; t += 16) {
      const W16 e = ExpW(SubW(Load<16>(scores + t), shift));
      const W16 kept = SelectFirst(e, count - t, 0.0f);
      Store<16>(kept, scores + t);
      total = AddW(total, kept);
    }
    *sum = FoldSum(total);
  }

  template <int Q>
  void WeighBlock(const QueryTile& tile, int64_t block) {
    std::fill_n(scratch_.block_out, Q * padded_, 0.0f);
    // Up to here every query attends: loads of V are shared. The rest is each
    // query's own.
    const int64_t shared = Count(tile, 0, block);
    WeighRange<Q>(tile, block, 0, shared, 0);
    for (int i = 1; i < Q; ++i) WeighRange<1>(tile, block, shared, Count(tile, i, block), i);
  }

  template <int Q>
  void WeighRange(const QueryTile& tile, int64_t block, int64_t begin, int64_t end, int first) {
    const int64_t head_dim = p_.layout.head_dim;
    for (int64_t t = begin; t < end;) {
      const int64_t in_page = (block + t) % kPageTokens;
      const int64_t count = std::min<int64_t>(kPageTokens - in_page, end - t);
      const T* values = Values(tile, block + t) + in_page * head_dim;
      for (int64_t d = 0; d < head_dim; d += 16) {
        WeighPage<Kv, Q>(values + d, head_dim, head_dim - d, count,
                         scratch_.scores + first * kAttentionBlock + t,
                         scratch_.block_out + first * padded_ + d, padded_);
      }
      t += count;
    }
  }

  void Merge(int i, bool is_first, float block_max, float block_sum, float* max, float* sum) {
    float* out = scratch_.out + i * padded_;
    const float* block_out = scratch_.block_out + i * padded_;
    if (is_first) {
      *max = block_max;
      *sum = block_sum;
      std::copy_n(block_out, padded_, out);
      return;
    }
    const float new_max = block_max > *max ? block_max : *max;
    const float keep = ExpScalar(*max - new_max);
    const float take = ExpScalar(block_max - new_max);
    *max = new_max;
    *sum = *sum * keep + block_sum * take;
    for (int64_t d = 0; d < padded_; d += 16) {
      const W16 scaled = MulW(Load<16>(out + d), Splat<16>(keep));
      Store<16>(FmaW(Load<16>(block_out + d), Splat<16>(take), scaled), out + d);
    }
  }

  void Write(const QueryTile& tile, int i, float sum) {
    const int64_t head_dim = p_.layout.head_dim;
    float* out = p_.out + Row(tile, i) * p_.out_stride + Column(tile, i);
    for (int64_t d = 0; d < head_dim; d += 16) {
      const W16 value = DivW(Load<16>(scratch_.out + i * padded_ + d), Splat<16>(sum));
      StoreFirst(value, out + d, head_dim - d);
    }
  }

  const AttentionParams& p_;
  int64_t padded_ = 0;
  AttentionScratch scratch_;
};

// The tile's queries in as few groups as there are sizes compiled for.
template <class Kv>
void RunTile(Attender<Kv>* attender, QueryTile tile) {
  const int32_t count = tile.count();
  while (tile.first_query < count) {
    const int32_t left = count - tile.first_query;
    int32_t now = 1;
    if constexpr (kManyQueries) {
      if (left >= 8) {
        attender->template Run<8>(tile);
        now = 8;
      } else if (left >= 6) {
        attender->template Run<6>(tile);
        now = 6;
      } else if (left >= 4) {
        attender->template Run<4>(tile);
        now = 4;
      } else if (left == 3) {
        attender->template Run<3>(tile);
        now = 3;
      }
    }
    if (now == 1) attender->template Run<1>(tile);
    tile.first_query += now;
  }
}

// Calls visit(tile, cost) for every tile of the step, in one order on all
// threads.
template <class Visit>
void ForEachTile(const AttentionParams& p, Visit* visit) {
  const int32_t group = p.heads / p.layout.kv_heads;
  const int32_t heads = std::min(group, kQueries);
  const int32_t rows = std::max(1, kQueries / group);
  for (const AttentionSequence& sequence : p.sequences) {
    QueryTile tile;
    tile.sequence = &sequence;
    for (tile.kv_head = 0; tile.kv_head < p.layout.kv_heads; ++tile.kv_head) {
      for (tile.first_row = 0; tile.first_row < sequence.rows; tile.first_row += rows) {
        tile.rows = std::min(rows, sequence.rows - tile.first_row);
        for (tile.first_head = 0; tile.first_head < group; tile.first_head += heads) {
          tile.heads = std::min(heads, group - tile.first_head);
          visit->Visit(tile, tile.count() * (tile.Length(0) + kPageTokens));
        }
      }
    }
  }
}
struct CostSum {
  int64_t total = 0;
  void Visit(const QueryTile&, int64_t cost) { total += cost; }
};
// Runs the tiles whose middle lies in this thread's share of the cost.
template <class Kv>
struct RunShare {
  Attender<Kv>* attender;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t done = 0;
  void Visit(const QueryTile& tile, int64_t cost) {
    const int64_t middle = done + cost / 2;
    done += cost;
    if (middle >= begin && middle < end) RunTile<Kv>(attender, tile);
  }
};

template <class Kv>
void AttendAll(const AttentionParams& p, const TeamMember& member) {
  CostSum cost;
  ForEachTile(p, &cost);
  const IndexRange mine = SplitRange(cost.total, member);
  Attender<Kv> attender(p, member);
  RunShare<Kv> share{&attender, mine.begin, mine.end};
  ForEachTile(p, &share);
}

inline void Attention(const AttentionParams& p, const TeamMember& member) {
  switch (p.layout.dtype) {
    case DType::kF32:
      return AttendAll<KvF32>(p, member);
    case DType::kBF16:
      return AttendAll<KvBf16>(p, member);
    default:
      return AttendAll<KvF16>(p, member);
  }
}

}  // namespace lorica::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
