// Paged attention. A thread's share of a tile meets K and V block by block, a block
// being 256 absolute positions: scores, maximum, exp, sum in 16 virtual lanes, P *
// V; then the block's partial is merged into the running one, in order, or, where
// the tile's blocks are several threads', put where they meet. Masked positions
// are selected away, never multiplied.

#include <algorithm>
#include <cstdint>
#include <limits>

#include "lorica/base/thread_pool.h"
#include "lorica/kernels/cpu/attention_tile-inl.h"
#include "lorica/kernels/cpu/attention_work.h"
#include "lorica/kernels/cpu/kernel_table.h"
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

// Of a query, over the positions so far or over a block.
struct Partial {
  float max = 0.0f;
  float sum = 0.0f;
};

// A thread's scratch, cut up. Rows of head_dim floats are padded to whole vectors.
struct AttentionScratch {
  float* q;          // of each group of queries [head_dim][queries]
  float* scores;     // [kMostQueries][kAttentionBlock]
  float* block_out;  // [kMostQueries][padded]
  float* out;        // [kTileQueries][padded]
};

template <class Kv>
class Attender {
 public:
  using T = typename Kv::T;

  Attender(const AttentionParams& p, const TeamMember& member) : p_(p) {
    padded_ = (p.layout.head_dim + 15) / 16 * 16;
    scratch_.q = p.scratch + member.thread * p.scratch_floats;
    scratch_.scores = scratch_.q + kTileQueries * padded_;
    scratch_.block_out = scratch_.scores + kMostQueries * kAttentionBlock;
    scratch_.out = scratch_.block_out + kMostQueries * padded_;
  }

  // `next` is what this thread does after it, or null: its first pages are fetched towards the end.
  void Run(const TileShare& share, const TileShare* next) {
    share_ = &share;
    next_ = next;
    ForEachGroup([&](auto size, int32_t first) { PackQueries<size()>(first); });
    for (int64_t block = share.blocks.begin; block < share.blocks.end; ++block) {
      ListPages(block);
      ForEachGroup([&](auto size, int32_t first) { RunBlock<size()>(block, first); });
    }
    if (share.is_shared) return;
    for (auto i = static_cast<int32_t>(share.queries.begin); i < share.queries.end; ++i) {
      Write(share.tile, i, scratch_.out + i * padded_, running_[i].sum);
    }
  }

  // Queries of a tile whose blocks were several threads'.
  void Meet(const TileShare& share, const TeamMember& member) {
    for (int32_t i = member.thread; i < share.tile.count(); i += member.threads) {
      const int64_t blocks = BlocksOf(share.tile, i);
      Partial running;
      for (int64_t block = 0; block < blocks; ++block) {
        const float* part = Meeting(share, block, i);
        Merge(block == 0, {part[0], part[1]}, part + 16, &running, scratch_.out);
      }
      Write(share.tile, i, scratch_.out, running.sum);
    }
  }

 private:
  static int64_t BlocksOf(const QueryTile& tile, int32_t query) {
    return (tile.Length(query) + kAttentionBlock - 1) / kAttentionBlock;
  }
  // Positions of the block that a query attends to.
  int64_t Count(int64_t block, int32_t query) const {
    return std::clamp<int64_t>(share_->tile.Length(query) - block * kAttentionBlock, 0,
                               kAttentionBlock);
  }
  // Where K of a position's page begins.
  const std::byte* KeysOf(const QueryTile& tile, int64_t page) const {
    const KvLayout& kv = p_.layout;
    return p_.pages + tile.sequence->pages[page] * kv.PageBytes() + p_.layer * kv.LayerBytes() +
           kv.KOffset(tile.kv_head);
  }
  // max, sum, padding, then head_dim floats.
  float* Meeting(const TileShare& share, int64_t block, int32_t query) const {
    float* parts = p_.scratch + share.meets_at * p_.scratch_floats +
                   AttentionScratchFloats({.head_dim = p_.layout.head_dim});
    return parts + (block * share.tile.count() + query) * (padded_ + 16);
  }
  int64_t Row(const QueryTile& tile, int32_t query) const {
    return tile.sequence->row_begin + tile.RowOf(query);
  }
  int64_t Column(const QueryTile& tile, int32_t query) const {
    const int32_t group = p_.heads / p_.layout.kv_heads;
    const int32_t head = tile.kv_head * group + tile.first_head + query % tile.heads;
    return int64_t{head} * p_.layout.head_dim;
  }

  template <int Q>
  struct Size {
    constexpr int operator()() const { return Q; }
  };
  // Calls run(Size<Q>, first query) for the share's queries in as few groups as there are sizes
  // compiled for.
  template <class Run>
  void ForEachGroup(const Run& run) {
    auto first = static_cast<int32_t>(share_->queries.begin);
    const auto end = static_cast<int32_t>(share_->queries.end);
    while (first < end) {
      const int32_t left = end - first;
      int32_t now = 1;
      if constexpr (kManyQueries) {
        // Six at a time keep more chains going than eight.
        if (kMostQueries == 8 && left >= 8 && left < 12) {
          if constexpr (kMostQueries == 8) run(Size<8>(), first);
          now = 8;
        } else if (left >= 6) {
          run(Size<6>(), first);
          now = 6;
        } else if (left >= 4) {
          run(Size<4>(), first);
          now = 4;
        } else if (left == 3) {
          run(Size<3>(), first);
          now = 3;
        } else if (left == 2) {
          run(Size<2>(), first);
          now = 2;
        }
      }
      if (now == 1) run(Size<1>(), first);
      first += now;
    }
  }

  template <int Q>
  void PackQueries(int32_t first) {
    const QueryTile& tile = share_->tile;
    float* to = scratch_.q + first * padded_;
    for (int i = 0; i < Q; ++i) {
      const float* q = p_.q + Row(tile, first + i) * p_.q_stride + Column(tile, first + i);
      for (int64_t d = 0; d < p_.layout.head_dim; ++d) to[d * Q + i] = q[d];
    }
  }

  void ListPages(int64_t block) {
    const QueryTile& tile = share_->tile;
    const int64_t begin = block * PageList::kPages;
    const auto last_query = static_cast<int32_t>(share_->queries.end - 1);
    const int64_t end = (tile.Length(last_query) + kPageTokens - 1) / kPageTokens;
    pages_.pages = static_cast<int>(std::min<int64_t>(PageList::kPages, end - begin));
    const int64_t v = p_.layout.VOffset(0);
    for (int i = 0; i < pages_.pages; ++i) {
      pages_.at[i] = KeysOf(tile, begin + i);
      pages_.at[pages_.pages + i] = pages_.at[i] + v;
    }
    // Then the next block, here or elsewhere; else what is near already.
    const QueryTile* after = &tile;
    int64_t page = begin + PageList::kPages;
    int64_t page_end = end;
    if (block + 1 >= share_->blocks.end) {
      after = next_ != nullptr ? &next_->tile : nullptr;
      page = next_ != nullptr ? next_->blocks.begin * PageList::kPages : 0;
      page_end = next_ != nullptr ? (after->Length(0) + kPageTokens - 1) / kPageTokens : 0;
    }
    for (int i = 0; i < PageList::kAhead; ++i) {
      pages_.at[2 * pages_.pages + i] =
          page + i < page_end ? KeysOf(*after, page + i) : pages_.at[0];
    }
  }

  template <int Q>
  void RunBlock(int64_t block, int32_t first) {
    const int64_t longest = Count(block, first + Q - 1);
    if (longest == 0) return;
    ScoreBlock<Q>(first, (longest + kPageTokens - 1) / kPageTokens);
    Partial part[Q];
    for (int i = 0; i < Q; ++i) {
      const int64_t count = Count(block, first + i);
      if (count > 0) part[i] = Soften(scratch_.scores + i * kAttentionBlock, count);
    }
    std::fill_n(scratch_.block_out, Q * padded_, 0.0f);
    // Up to here every query attends: loads of V are shared. The rest is each query's own.
    const int64_t shared = Count(block, first);
    WeighRange<Q>({0, shared}, 0);
    for (int i = 1; i < Q; ++i) WeighRange<1>({shared, Count(block, first + i)}, i);
    for (int i = 0; i < Q; ++i) {
      if (Count(block, first + i) == 0) continue;
      const float* out = scratch_.block_out + i * padded_;
      if (share_->is_shared) {
        float* to = Meeting(*share_, block, first + i);
        to[0] = part[i].max;
        to[1] = part[i].sum;
        std::copy_n(out, padded_, to + 16);
      } else {
        Merge(block == 0, part[i], out, &running_[first + i], scratch_.out + (first + i) * padded_);
      }
    }
  }

  template <int Q>
  void ScoreBlock(int32_t first, int64_t pages) {
    constexpr int kP = kAbreast<Q>;
    const W16 scale = Splat<16>(p_.scale);
    const float* q = scratch_.q + first * padded_;
    const int64_t head_dim = p_.layout.head_dim;
    int64_t page = 0;
    for (; page + kP <= pages; page += kP) {
      ScorePages<Kv, Q, kP>(pages_.at + page, head_dim, q, scale,
                            scratch_.scores + page * kPageTokens);
    }
    for (; kP > 1 && page < pages; ++page) {
      ScorePages<Kv, Q, 1>(pages_.at + page, head_dim, q, scale,
                           scratch_.scores + page * kPageTokens);
    }
  }

  // The first `count` scores become weights: exp(score - max), times the scale of V where it has
  // one.
  Partial Soften(float* scores, int64_t count) {
    const float lowest = -std::numeric_limits<float>::infinity();
    const int64_t whole = count / 16 * 16;
    W16 lanes = Splat<16>(lowest);
    for (int64_t t = 0; t < whole; t += 16) lanes = MaxW(lanes, Load<16>(scores + t));
    if (whole < count) {
      lanes = MaxW(lanes, SelectFirst(Load<16>(scores + whole), count - whole, lowest));
    }
    Partial part;
    part.max = FoldMax(lanes);
    const W16 shift = Splat<16>(part.max);
    W16 total = Splat<16>(0.0f);
    for (int64_t t = 0; t < whole; t += 16) {
      const W16 e = ExpW(SubW(Load<16>(scores + t), shift));
      total = AddW(total, e);
      StoreWeights(e, t, scores);
    }
    if (whole < count) {
      const W16 e = ExpW(SubW(Load<16>(scores + whole), shift));
      const W16 kept = SelectFirst(e, count - whole, 0.0f);
      total = AddW(total, kept);
      StoreWeights(kept, whole, scores);
    }
    part.sum = FoldSum(total);
    return part;
  }
  HWY_INLINE void StoreWeights(const W16& e, int64_t t, float* scores) {
    W16 weight = e;
    if constexpr (Kv::kScaled) {
      weight = MulW(e, Load<16>(ScalesOfV(pages_.key(t / kPageTokens), p_.layout.head_dim)));
    }
    Store<16>(weight, scores + t);
  }

  template <int Q>
  void WeighRange(IndexRange positions, int first) {
    if (positions.size() <= 0) return;
    constexpr int kC = kAbreast<Q>;
    WeighArgs args;
    args.head_dim = p_.layout.head_dim;
    args.positions = positions;
    args.weights = scratch_.scores + first * kAttentionBlock;
    args.out_stride = padded_;
    const auto weigh = [&](auto columns) {
      args.out = scratch_.block_out + first * padded_ + args.column;
      WeighPages<Kv, Q, columns()>(pages_, args);
      args.column += 16 * columns();
    };
    if constexpr (kC > 1) {
      while (args.column + 16 * kC <= args.head_dim) weigh(Size<kC>());
    }
    while (args.column < args.head_dim) weigh(Size<1>());
  }

  void Merge(bool is_first, const Partial& part, const float* part_out, Partial* running,
             float* out) {
    if (is_first) {
      *running = part;
      std::copy_n(part_out, padded_, out);
      return;
    }
    const float new_max = part.max > running->max ? part.max : running->max;
    const float keep = ExpScalar(running->max - new_max);
    const float take = ExpScalar(part.max - new_max);
    running->max = new_max;
    running->sum = running->sum * keep + part.sum * take;
    for (int64_t d = 0; d < padded_; d += 16) {
      const W16 scaled = MulW(Load<16>(out + d), Splat<16>(keep));
      Store<16>(FmaW(Load<16>(part_out + d), Splat<16>(take), scaled), out + d);
    }
  }

  void Write(const QueryTile& tile, int32_t query, const float* from, float sum) {
    const int64_t head_dim = p_.layout.head_dim;
    float* out = p_.out + Row(tile, query) * p_.out_stride + Column(tile, query);
    for (int64_t d = 0; d < head_dim; d += 16) {
      StoreFirst(DivW(Load<16>(from + d), Splat<16>(sum)), out + d, head_dim - d);
    }
  }

  const AttentionParams& p_;
  int64_t padded_ = 0;
  AttentionScratch scratch_;
  const TileShare* share_ = nullptr;
  const TileShare* next_ = nullptr;
  PageList pages_;
  Partial running_[kTileQueries];
};

template <class Kv>
void AttendAll(const AttentionParams& p, const TeamMember& member) {
  Attender<Kv> attender(p, member);
  // One behind, so that the last one's successor is known.
  TileShare last;
  bool has_last = false;
  bool any_shared = false;
  AttentionLine line(p, member.threads);
  ForEachTile(p, [&](const QueryTile& tile) {
    const TileShare share = line.Next(tile, member.thread);
    any_shared = any_shared || share.is_shared;
    if (share.empty()) return;
    if (has_last) attender.Run(last, &share);
    last = share;
    has_last = true;
  });
  if (has_last) attender.Run(last, nullptr);
  if (!any_shared) return;
  member.Sync();
  AttentionLine again(p, member.threads);
  ForEachTile(p, [&](const QueryTile& tile) {
    const TileShare share = again.Next(tile, member.thread);
    if (share.is_shared) attender.Meet(share, member);
  });
}

inline void Attention(const AttentionParams& p, const TeamMember& member) {
  switch (p.layout.dtype) {
    case DType::kF32:
      return AttendAll<KvF32>(p, member);
    case DType::kBF16:
      return AttendAll<KvBf16>(p, member);
    case DType::kI8:
      return AttendAll<KvI8>(p, member);
    default:
      return AttendAll<KvF16>(p, member);
  }
}

}  // namespace lorica::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
