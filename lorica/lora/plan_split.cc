#include <array>
#include <limits>

#include "lorica/base/check.h"
#include "lorica/lora/plan_builders.h"

namespace lorica::lora {
namespace {

// What starting an expand costs, in bytes not read meanwhile.
constexpr int64_t kItemCost = 4096;
// Fewest columns of an expand item while more are left: what a short item saves in balance it costs
// in sums that are waited for. Where a worker's share of a round is small, half of that.
constexpr int64_t kLeastColumns = 512;
constexpr int64_t kLeastOfShare = 128;
// Of the expands' bytes, in sixteenths: round 0. Its expands have to last while the sums of round
// 1, whose shrinks are as much shorter, are under way.
constexpr int64_t kFirstRound = 10;
// A byte of y costs its writer so many bytes of reading: the way out is about half as wide.
constexpr int64_t kWriteCost = 2;
// The searches for the least greatest load end within 1/512 of it.
constexpr int64_t kPrecision = 512;

int64_t RoundUp(int64_t value, int64_t quantum) {
  return (value + quantum - 1) / quantum * quantum;
}

struct Costs {
  const PlanInput& input;

  int64_t SliceLength(const FusedBlock& b, int64_t slice) const {
    const int64_t k = input.shape(b.part).k;
    const int64_t length = input.limits.SliceOf(k);
    return std::min(length, k - slice * length);
  }
  int64_t Ranks(const FusedBlock& b) const { return int64_t{b.tiles} * input.limits.rank_quantum; }
  int64_t Shrink(const FusedBlock& b, int64_t slice) const {
    const int64_t bytes = input.ElementBytes(b.part, b.segment);
    return SliceLength(b, slice) * (Ranks(b) + b.row_end - b.row_begin) * bytes;
  }
  // Of any number of columns: the partial sums of all slices.
  int64_t ExpandStart(const FusedBlock& b) const {
    return kItemCost +
           input.limits.SlicesOf(input.shape(b.part).k) * (b.row_end - b.row_begin) * Ranks(b) * 4;
  }
  int64_t Column(const FusedBlock& b) const {
    const int64_t rows = b.row_end - b.row_begin;
    return std::max(Ranks(b) + rows, kWriteCost * rows) * input.ElementBytes(b.part, b.segment);
  }
};

// Rows of every segment in equal blocks of at most `most_rows`.
void ListBlocks(const PlanInput& input, int32_t most_rows, LoraPlan* plan) {
  const int32_t segments = input.segment_count();
  plan->blocks.clear();
  for (int32_t part = 0; part < plan->parts; ++part) {
    for (int32_t s = 0; s < segments; ++s) {
      const int32_t tiles = plan->Scratch(part, s, segments).tiles;
      if (tiles == 0) continue;
      const Segment& segment = input.segment(s);
      const int32_t most = RowsThatFit(input.limits, tiles, most_rows);
      const int32_t count = (segment.size() + most - 1) / most;
      const auto rows = static_cast<int32_t>(
          RoundUp((segment.size() + count - 1) / count, std::min(input.limits.row_quantum, most)));
      for (int32_t begin = segment.begin; begin < segment.end; begin += rows) {
        plan->blocks.push_back({part, s, begin, std::min(segment.end, begin + rows), tiles});
      }
    }
  }
}

// Blocks [begin, end) of a round, and where their sums begin.
struct Round {
  size_t begin = 0;
  size_t end = 0;
  int32_t number = 0;
  int64_t least_columns = 0;  // of an item
};

// S of a block in the scratch, in floats.
int64_t SumFloats(const Costs& costs, const FusedBlock& b) {
  return costs.input.limits.SlicesOf(costs.input.shape(b.part).k) * (b.row_end - b.row_begin) *
         costs.Ranks(b);
}

ShrinkItem Slice(const Costs& costs, const FusedBlock& b, int64_t slice, int64_t s_offset) {
  const PlanLimits& limits = costs.input.limits;
  const int64_t k = costs.input.shape(b.part).k;
  const int64_t length = limits.SliceOf(k);
  ShrinkItem item;
  item.segment = b.segment;
  item.part = b.part;
  item.row_begin = b.row_begin;
  item.row_end = b.row_end;
  item.tile_end = b.tiles;
  item.s_offset = s_offset + slice * limits.rank_quantum;
  item.s_stride = static_cast<int32_t>(limits.SlicesOf(k)) * limits.rank_quantum;
  item.k_begin = static_cast<int32_t>(slice * length);
  item.k_end = static_cast<int32_t>(std::min(k, (slice + 1) * length));
  return item;
}

// The items of each worker so far, before they are put into one list.
struct Shares {
  explicit Shares(int32_t workers)
      : loads(static_cast<size_t>(workers), 0), shrinks(loads.size()), expands(loads.size()) {}
  std::vector<int64_t> loads;
  std::vector<std::vector<ShrinkItem>> shrinks;
  std::vector<std::vector<ExpandItem>> expands;
};

// Shares the slices of a round out, in order, so that loads become as equal as whole slices let
// them.
void ShareShrinks(const Costs& costs, const std::vector<FusedBlock>& blocks, const Round& round,
                  const std::vector<int64_t>& s_offsets, Shares* shares) {
  const PlanInput& input = costs.input;
  int64_t left = 0;
  for (size_t i = round.begin; i < round.end; ++i) {
    for (int64_t s = 0; s < input.limits.SlicesOf(input.shape(blocks[i].part).k); ++s) {
      left += costs.Shrink(blocks[i], s);
    }
  }
  for (const int64_t load : shares->loads) left += load;
  // Slice by slice, so that every worker has some of each adapter's and none waits long for one.
  size_t worker = 0;
  int64_t most_slices = 0;
  for (size_t i = round.begin; i < round.end; ++i) {
    most_slices = std::max(most_slices, input.limits.SlicesOf(input.shape(blocks[i].part).k));
  }
  for (int64_t slice = 0; slice < most_slices; ++slice) {
    for (size_t i = round.begin; i < round.end; ++i) {
      const int64_t cost = costs.Shrink(blocks[i], slice);
      const auto share = [&] { return left / static_cast<int64_t>(shares->loads.size() - worker); };
      while (worker + 1 < shares->loads.size() && shares->loads[worker] + cost / 2 > share()) {
        left -= shares->loads[worker++];
      }
      shares->loads[worker] += cost;
      ShrinkItem item = Slice(costs, blocks[i], slice, s_offsets[i]);
      item.round = round.number;
      shares->shrinks[worker].push_back(item);
    }
  }
}

// Shares the columns of a round out, in order, so that no worker's load passes `cap`; false when
// they do not fit. With `keep`, the items go to `shares`.
bool ShareExpands(const Costs& costs, const std::vector<FusedBlock>& blocks, const Round& round,
                  const std::vector<int64_t>& s_offsets, int64_t cap, bool keep, Shares* shares) {
  const PlanInput& input = costs.input;
  const int64_t quantum = input.limits.column_quantum;
  size_t worker = 0;
  int64_t room = cap - shares->loads[0];
  for (size_t i = round.begin; i < round.end; ++i) {
    const FusedBlock& b = blocks[i];
    const int64_t n = input.shape(b.part).n;
    for (int64_t column = 0; column < n;) {
      const int64_t left = n - column;
      const int64_t fits =
          room < costs.ExpandStart(b) ? 0 : (room - costs.ExpandStart(b)) / costs.Column(b);
      int64_t take = fits >= left ? left : fits / quantum * quantum;
      // No scrap for the next one.
      const int64_t least = round.least_columns;
      if (take < left) {
        take = std::min(take, std::max(left - least, left / 2) / quantum * quantum);
      }
      if (take < std::min(left, least)) {
        if (keep) shares->loads[worker] = cap - room;
        if (++worker == shares->loads.size()) return false;
        room = cap - shares->loads[worker];
        continue;
      }
      room -= costs.ExpandStart(b) + take * costs.Column(b);
      if (keep) {
        ExpandItem item;
        item.segment = b.segment;
        item.part = b.part;
        item.row_begin = b.row_begin;
        item.row_end = b.row_end;
        item.column_begin = static_cast<int32_t>(column);
        item.column_end = static_cast<int32_t>(column + take);
        item.tiles = b.tiles;
        item.s_offset = s_offsets[i];
        item.s_stride = static_cast<int32_t>(input.limits.SlicesOf(input.shape(b.part).k)) *
                        input.limits.rank_quantum;
        item.round = round.number;
        shares->expands[worker].push_back(item);
      }
      column += take;
    }
  }
  if (keep) shares->loads[worker] = cap - room;
  return true;
}

// The least cap in (low, high] that `fits`, nearly; high does.
template <typename Fits>
int64_t LeastCap(int64_t low, int64_t high, const Fits& fits) {
  while (high - low > std::max<int64_t>(1, high / kPrecision)) {
    const int64_t middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

// Shares all out; the greatest load.
int64_t Share(const Costs& costs, LoraPlan* plan, Shares* shares) {
  const std::vector<FusedBlock>& blocks = plan->blocks;
  std::vector<int64_t> s_offsets;
  std::vector<int64_t> expands;
  int64_t all_expands = 0;
  plan->s_floats = 0;
  for (const FusedBlock& b : blocks) {
    s_offsets.push_back(plan->s_floats);
    plan->s_floats += SumFloats(costs, b);
    expands.push_back(costs.ExpandStart(b) + costs.input.shape(b.part).n * costs.Column(b));
    all_expands += expands.back();
  }
  // While the sums of one round are under way, the cores work on the others.
  std::array<Round, kSplitRounds> rounds;
  size_t at = 0;
  int64_t sum = 0;
  for (int32_t r = 0; r < kSplitRounds; ++r) {
    Round& round = rounds[static_cast<size_t>(r)];
    round.begin = at;
    round.number = r;
    while (at < blocks.size() &&
           sum + expands[at] / 2 <= all_expands * (r == 0 ? kFirstRound : 16) / 16) {
      sum += expands[at++];
    }
    if (r + 1 == kSplitRounds) at = blocks.size();
    round.end = at;
    int64_t columns = 0;
    for (size_t i = round.begin; i < round.end; ++i) {
      columns += costs.input.shape(blocks[i].part).n;
    }
    const auto workers = static_cast<int64_t>(shares->loads.size());
    round.least_columns = std::clamp(columns / workers / 2, kLeastOfShare, kLeastColumns);
  }
  for (const Round& round : rounds) ShareShrinks(costs, blocks, round, s_offsets, shares);
  for (const Round& round : rounds) {
    if (round.begin == round.end) continue;
    int64_t total = 0;
    for (size_t i = round.begin; i < round.end; ++i) total += expands[i];
    int64_t loads = 0;
    for (const int64_t load : shares->loads) loads += load;
    const int64_t most = *std::max_element(shares->loads.begin(), shares->loads.end()) + total;
    const int64_t least = (loads + total) / static_cast<int64_t>(shares->loads.size()) - 1;
    const int64_t cap = LeastCap(least, most, [&](int64_t middle) {
      return ShareExpands(costs, blocks, round, s_offsets, middle, false, shares);
    });
    LORICA_CHECK(ShareExpands(costs, blocks, round, s_offsets, cap, true, shares));
  }
  return *std::max_element(shares->loads.begin(), shares->loads.end());
}

}  // namespace

void BuildSplit(const PlanInput& input, LoraPlan* plan) {
  const PlanLimits& limits = input.limits;
  const Costs costs{input};
  int32_t longest = 0;
  for (const Segment& segment : input.segments.segments()) {
    longest = std::max(longest, segment.size());
  }
  // Blocks of fewer rows share out more evenly and read A more often.
  Shares best(limits.workers);
  int64_t least = std::numeric_limits<int64_t>::max();
  int64_t floats = 0;
  int32_t best_rows = 0;
  for (int32_t rows = limits.row_block; rows > 0; rows -= limits.row_quantum) {
    if (best_rows != 0 && (rows >= longest || rows < limits.row_block / 4)) continue;
    ListBlocks(input, rows, plan);
    if (plan->blocks.empty()) return;
    Shares shares(limits.workers);
    const int64_t load = Share(costs, plan, &shares);
    if (load >= least) continue;
    least = load;
    best_rows = rows;
    floats = plan->s_floats;
    best = std::move(shares);
  }
  plan->s_floats = floats;
  for (size_t worker = 0; worker < best.loads.size(); ++worker) {
    plan->shrinks.insert(plan->shrinks.end(), best.shrinks[worker].begin(),
                         best.shrinks[worker].end());
    plan->expands.insert(plan->expands.end(), best.expands[worker].begin(),
                         best.expands[worker].end());
    plan->shrink_begin[worker + 1] = static_cast<int32_t>(plan->shrinks.size());
    plan->expand_begin[worker + 1] = static_cast<int32_t>(plan->expands.size());
  }
}

}  // namespace lorica::lora
