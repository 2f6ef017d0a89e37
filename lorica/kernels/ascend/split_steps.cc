#include "lorica/kernels/ascend/split_steps.h"

#include <algorithm>

#include "lorica/base/check.h"

namespace lorica::ascend {
namespace {

// Tiles whose slices fit in one place of L1, of 16 rows each.
constexpr int32_t kBatchTiles = 8;
constexpr int32_t kBatchRows = 16;
// Places of L0B.
constexpr uint64_t kPlaces = 3;
// Times are counted in halves of a chunk: 2 i is before B of chunk i comes, 2 i + 1 before its y, 2
// i + 2 after that.
//
// Sums are in L1 that much earlier than the chunks asked for before them have been taken from
// there: MTE1 is behind after it has waited for the first ones.
constexpr uint64_t kBehind = 2;
// S is made no earlier before its first chunk.
constexpr uint64_t kEarly = 5;
// From the start of S until it may be used: product and way to L1, on which the flag waits for y of
// the chunk before to be in memory. The first S has none before it.
constexpr uint64_t kSumTime = 3;
constexpr uint64_t kFirstSumTime = 2;
// The first S is made after two chunks have come, all but y: more would find no place.
constexpr uint64_t kFirstSum = 3;

struct Batch {
  uint64_t sum = 0;    // when its S is made
  uint64_t ready = 0;  // and from when it is used
};

class Order {
 public:
  Order(std::span<const SplitExpand> expands, const std::array<uint64_t, kRounds>& leads)
      : expands_(expands), leads_(leads) {}

  SplitOrder Run() {
    if (expands_.empty()) return {};
    chunks_ = expands_.back().chunk_end;
    AddBatches();
    for (uint64_t chunk = 0; chunk < chunks_; ++chunk) {
      uint64_t step = Sums(2 * chunk) ? kStepSumFirst : 0;
      step |= Finish(chunk, kPlaces - 1, 2 * chunk + 1);
      if (Sums(2 * chunk + 1)) step |= kStepSum;
      const uint64_t most_held = chunk + 1 == chunks_ ? 0 : kPlaces - 1;
      step |= Finish(chunk + 1, most_held, 2 * chunk + 2) << kStepAfter;
      order_.steps.push_back(step);
    }
    LORICA_CHECK(finished_ == chunks_);
    return std::move(order_);
  }

 private:
  // Expands of one round whose S is made at once: each S would wait by itself for the way out of
  // the chunk before. The first expand of a core is a batch of its own, so that it begins soon.
  void AddBatches() {
    for (size_t begin = 0; begin < expands_.size();) {
      const SplitExpand& first = expands_[begin];
      size_t end = begin;
      int32_t tiles = 0;
      do {
        order_.s_at.push_back(static_cast<uint64_t>(tiles));
        order_.batch_tiles.push_back(0);
        const SplitExpand& e = expands_[end++];
        batch_of_.insert(batch_of_.end(), e.chunk_end - e.chunk_begin, batches_.size());
        tiles += e.tiles;
      } while (begin != 0 && end < expands_.size() && Join(first, expands_[end], tiles));
      order_.batch_tiles[begin] = static_cast<uint64_t>(tiles);
      AddBatch(first);
      begin = end;
    }
  }

  static bool Join(const SplitExpand& first, const SplitExpand& next, int32_t tiles) {
    return next.round == first.round && next.part == first.part && first.rows <= kBatchRows &&
           next.rows <= kBatchRows && tiles + next.tiles <= kBatchTiles;
  }

  void AddBatch(const SplitExpand& first) {
    const uint64_t at = 2 * first.chunk_begin;
    const uint64_t asked = 2 * leads_[static_cast<size_t>(first.round)];
    Batch batch;
    uint64_t time = kFirstSumTime;
    if (batches_.empty()) {
      batch.sum = std::min(asked == 0 ? 0 : asked + 1, kFirstSum);
    } else {
      const uint64_t there = std::max(asked, kBehind) - kBehind;
      batch.sum = std::max({there, batches_.back().ready, std::max(at, kEarly) - kEarly});
      time = kSumTime;
    }
    // Its first two chunks are held when the third comes: then S has to be there.
    batch.sum = std::min({batch.sum, at + kFirstSum, 2 * chunks_ - 1});
    batch.ready = std::max(at + 1, std::min(batch.sum + time, at + 2 * kPlaces - 1));
    batches_.push_back(batch);
  }

  // How many of the first `begun` chunks are brought to their end now: those whose S is there, and
  // those that may not be held any longer.
  uint64_t Finish(uint64_t begun, uint64_t most_held, uint64_t time) {
    uint64_t count = 0;
    for (; finished_ < begun; ++finished_, ++count) {
      const size_t batch = batch_of_[finished_];
      const bool there = batch < summed_ && batches_[batch].ready <= time;
      if (!there && begun - finished_ <= most_held) break;
      used_ = batch + 1;
      summed_ = std::max(summed_, used_);
    }
    return count;
  }

  // Whether S of the next batch is made now; it takes the way of the last one.
  bool Sums(uint64_t time) {
    if (summed_ == batches_.size() || summed_ > used_ || batches_[summed_].sum > time) return false;
    ++summed_;
    return true;
  }

  std::span<const SplitExpand> expands_;
  const std::array<uint64_t, kRounds>& leads_;
  SplitOrder order_;
  uint64_t chunks_ = 0;
  std::vector<Batch> batches_;
  std::vector<size_t> batch_of_;  // of each chunk
  uint64_t finished_ = 0;         // chunks
  size_t summed_ = 0;             // batches whose S is made
  size_t used_ = 0;               // and has come to L0
};

}  // namespace

SplitOrder OrderSplit(std::span<const SplitExpand> expands,
                      const std::array<uint64_t, kRounds>& leads) {
  return Order(expands, leads).Run();
}

}  // namespace lorica::ascend
