#include "lorica/lora/plan.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <random>
#include <tuple>

#include "lorica/base/allocation_count.h"

namespace lorica::lora {
namespace {

constexpr SiteSpace kSites{2};

// Ranks of a slot at the parts of the q, k, v call of layer 0.
using Ranks = std::vector<int32_t>;

struct Case {
  CallSites call;
  PlanLimits limits;
  std::vector<Ranks> ranks;  // [slots][parts]
  TokenMap rows;
};

CallSites Qkv(int64_t k, const std::vector<int64_t>& columns) {
  CallSites call;
  call.parts = static_cast<int32_t>(columns.size());
  for (size_t part = 0; part < columns.size(); ++part) {
    call.site[part] = kSites.SitesOf(CallKind::kQkv, 0).site[part];
    call.shape[part] = {k, columns[part]};
  }
  return call;
}

PlanLimits MatrixUnit(int32_t workers) {
  PlanLimits limits;
  limits.form = PlanLimits::Form::kFused;
  limits.workers = workers;
  limits.row_quantum = 16;
  limits.row_block = 64;
  limits.rank_quantum = 16;
  return limits;
}

PlanLimits MeetingUnit(int32_t workers) {
  PlanLimits limits = MatrixUnit(workers);
  limits.form = PlanLimits::Form::kSplit;
  limits.slice_quantum = 16;
  limits.most_slices = 4;
  return limits;
}

PlanLimits Cpu(int32_t workers) {
  PlanLimits limits;
  limits.workers = workers;
  return limits;
}

std::vector<WeightTable::SiteTiles> TilesOf(const Ranks& ranks, int32_t rank_quantum,
                                            int32_t layer = 0) {
  std::vector<WeightTable::SiteTiles> sites;
  for (size_t part = 0; part < ranks.size(); ++part) {
    if (ranks[part] == 0) continue;
    const auto count = static_cast<size_t>(TileCount(ranks[part], rank_quantum));
    sites.push_back(
        {kSites.SitesOf(CallKind::kQkv, layer).site[part], std::vector<TileRef>(count)});
  }
  return sites;
}

struct Planned {
  explicit Planned(const Case& c) : table(kSites, static_cast<int32_t>(c.ranks.size())) {
    for (size_t slot = 0; slot < c.ranks.size(); ++slot) {
      table.Install({static_cast<int32_t>(slot)}, TilesOf(c.ranks[slot], c.limits.rank_quantum));
    }
    segments.Build(c.rows);
    BuildPlan(c.call, segments, table, c.limits, &plan);
  }
  int32_t count() const { return static_cast<int32_t>(segments.segments().size()); }

  WeightTable table;
  SegmentTable segments;
  LoraPlan plan;
};

// How often each (part, position in the order, index) is done.
using Counts = std::map<std::tuple<int32_t, int32_t, int64_t>, int>;

int32_t TilesAt(const Case& c, int32_t part, SlotId slot) {
  return TileCount(c.ranks[static_cast<size_t>(slot.index)][static_cast<size_t>(part)],
                   c.limits.rank_quantum);
}

Counts Expected(const Case& c, const Planned& p, bool columns) {
  Counts counts;
  for (const Segment& segment : p.segments.segments()) {
    for (int32_t part = 0; part < c.call.parts; ++part) {
      const int32_t tiles = TilesAt(c, part, segment.slot);
      const int64_t n = c.call.shape[static_cast<size_t>(part)].n;
      const int64_t last = !columns ? tiles : tiles > 0 ? n : 0;
      for (int32_t i = segment.begin; i < segment.end; ++i) {
        for (int64_t j = 0; j < last; ++j) counts[{part, i, j}] = 1;
      }
    }
  }
  return counts;
}

bool BeginsAreSound(const std::vector<int32_t>& begin, size_t items, int32_t workers) {
  return begin.size() == static_cast<size_t>(workers) + 1 && begin.front() == 0 &&
         begin.back() == static_cast<int32_t>(items) && std::is_sorted(begin.begin(), begin.end());
}

void CheckTwoPhase(const Case& c) {
  const Planned p(c);
  const LoraPlan& plan = p.plan;
  const int32_t ranks = c.limits.rank_quantum;
  ASSERT_TRUE(plan.fused.empty());
  ASSERT_TRUE(BeginsAreSound(plan.shrink_begin, plan.shrinks.size(), c.limits.workers));
  ASSERT_TRUE(BeginsAreSound(plan.expand_begin, plan.expands.size(), c.limits.workers));

  // S: every span inside the scratch, none over another.
  std::vector<std::pair<int64_t, int64_t>> spans;
  for (int32_t part = 0; part < c.call.parts; ++part) {
    for (int32_t s = 0; s < p.count(); ++s) {
      const Segment& segment = p.segments.segments()[static_cast<size_t>(s)];
      const ScratchSpan& span = plan.Scratch(part, s, p.count());
      ASSERT_EQ(span.tiles, TilesAt(c, part, segment.slot));
      const int64_t floats = int64_t{segment.size()} * span.tiles * ranks;
      if (floats > 0) spans.emplace_back(span.s_offset, span.s_offset + floats);
    }
  }
  std::sort(spans.begin(), spans.end());
  int64_t end = 0;
  for (const auto& span : spans) {
    ASSERT_GE(span.first, end);
    end = span.second;
  }
  ASSERT_EQ(end, plan.s_floats);
  int64_t most_tiles = 0;
  for (const Ranks& slot : c.ranks) {
    int64_t tiles = 0;
    for (int32_t rank : slot) tiles += TileCount(rank, ranks);
    most_tiles = std::max(most_tiles, tiles);
  }
  ASSERT_LE(plan.s_floats, ScratchBound(static_cast<int64_t>(c.rows.size()), most_tiles, ranks));

  Counts shrunk;
  for (const ShrinkItem& item : plan.shrinks) {
    const Segment& segment = p.segments.segments()[static_cast<size_t>(item.segment)];
    const ScratchSpan& span = plan.Scratch(item.part, item.segment, p.count());
    ASSERT_GE(item.row_begin, segment.begin);
    ASSERT_LE(item.row_end, segment.end);
    ASSERT_LE(item.row_end - item.row_begin, c.limits.row_block);
    ASSERT_LT(item.tile_begin, item.tile_end);
    ASSERT_EQ(item.s_stride, span.tiles * ranks);
    ASSERT_EQ(item.s_offset, span.s_offset +
                                 int64_t{item.row_begin - segment.begin} * item.s_stride +
                                 int64_t{item.tile_begin} * ranks);
    for (int32_t i = item.row_begin; i < item.row_end; ++i) {
      for (int32_t t = item.tile_begin; t < item.tile_end; ++t) ++shrunk[{item.part, i, t}];
    }
  }
  ASSERT_TRUE(shrunk == Expected(c, p, false));

  Counts expanded;
  for (int32_t w = 0; w < c.limits.workers; ++w) {
    std::tuple<int32_t, int32_t, int32_t, int32_t> last{-1, 0, 0, 0};
    for (int32_t i = plan.expand_begin[static_cast<size_t>(w)];
         i < plan.expand_begin[static_cast<size_t>(w) + 1]; ++i) {
      const ExpandItem& item = plan.expands[static_cast<size_t>(i)];
      const Segment& segment = p.segments.segments()[static_cast<size_t>(item.segment)];
      const ScratchSpan& span = plan.Scratch(item.part, item.segment, p.count());
      const ColumnRange columns = WorkerColumns(c.call.shape[static_cast<size_t>(item.part)].n,
                                                c.limits.column_quantum, c.limits.workers, w);
      ASSERT_EQ(item.column_begin, columns.begin);
      ASSERT_EQ(item.column_end, columns.end);
      ASSERT_EQ(item.tiles, span.tiles);
      ASSERT_EQ(item.s_offset,
                span.s_offset + int64_t{item.row_begin - segment.begin} * item.s_stride);
      ASSERT_EQ(item.s_stride, span.tiles * ranks);
      const std::tuple<int32_t, int32_t, int32_t, int32_t> key{item.part, item.column_begin,
                                                               item.segment, item.row_begin};
      ASSERT_LT(last, key);
      last = key;
      for (int32_t r = item.row_begin; r < item.row_end; ++r) {
        for (int32_t n = item.column_begin; n < item.column_end; ++n) ++expanded[{item.part, r, n}];
      }
    }
  }
  ASSERT_TRUE(expanded == Expected(c, p, true));
}

void CheckFused(const Case& c) {
  const Planned p(c);
  const LoraPlan& plan = p.plan;
  ASSERT_TRUE(plan.shrinks.empty() && plan.expands.empty());
  ASSERT_TRUE(BeginsAreSound(plan.fused_begin, plan.fused.size(), c.limits.workers));
  Counts counts;
  for (const FusedItem& item : plan.fused) {
    const auto& segments = p.segments.segments();
    const Segment& first = segments[static_cast<size_t>(item.segment_begin)];
    const Segment& last = segments[static_cast<size_t>(item.segment_end) - 1];
    const int32_t tiles = TilesAt(c, item.part, first.slot);
    ASSERT_LE(item.row_end - item.row_begin, c.limits.row_block);
    ASSERT_GE(item.row_begin, first.begin);
    ASSERT_LE(item.row_end, last.end);
    if (item.segment_end - item.segment_begin > 1) {
      ASSERT_EQ(item.row_begin, first.begin);
      ASSERT_EQ(item.row_end, last.end);
      ASSERT_LE(item.row_end - item.row_begin, c.limits.row_quantum);
      for (int32_t s = item.segment_begin; s < item.segment_end; ++s) {
        ASSERT_EQ(TilesAt(c, item.part, segments[static_cast<size_t>(s)].slot), tiles);
      }
    }
    ASSERT_EQ(item.column_begin % c.limits.column_quantum, 0);
    if (c.limits.local_bytes > 0) {
      const int64_t pad = c.limits.row_quantum;
      const int64_t rows = (item.row_end - item.row_begin + pad - 1) / pad * pad;
      ASSERT_LE(rows * (item.segment_end - item.segment_begin) * tiles * c.limits.rank_quantum * 4,
                c.limits.local_bytes);
    }
    for (int32_t i = item.row_begin; i < item.row_end; ++i) {
      for (int32_t n = item.column_begin; n < item.column_end; ++n) ++counts[{item.part, i, n}];
    }
  }
  ASSERT_TRUE(counts == Expected(c, p, true));
}

// Each input of each tile is summed once, in slices that K alone decides, before the meeting that
// its expand waits for.
void CheckSplit(const Case& c) {
  const Planned p(c);
  const LoraPlan& plan = p.plan;
  ASSERT_TRUE(plan.fused.empty());
  ASSERT_TRUE(BeginsAreSound(plan.shrink_begin, plan.shrinks.size(), c.limits.workers));
  ASSERT_TRUE(BeginsAreSound(plan.expand_begin, plan.expands.size(), c.limits.workers));
  const auto& segments = p.segments.segments();
  const auto fits = [&](int32_t rows, int32_t tiles) {
    const int64_t pad = c.limits.row_quantum;
    return rows <= c.limits.row_block &&
           (c.limits.local_bytes == 0 ||
            (rows + pad - 1) / pad * pad * tiles * c.limits.rank_quantum * 4 <=
                c.limits.local_bytes);
  };
  Counts slices, expected_slices, floats, columns;
  std::map<std::tuple<int32_t, int32_t>, int32_t> rounds;  // of (part, row)
  const int64_t k = c.call.shape[0].k;
  for (const ShrinkItem& item : plan.shrinks) {
    const Segment& segment = segments[static_cast<size_t>(item.segment)];
    ASSERT_GE(item.row_begin, segment.begin);
    ASSERT_LE(item.row_end, segment.end);
    ASSERT_EQ(item.tile_begin, 0);
    ASSERT_EQ(item.tile_end, TilesAt(c, item.part, segment.slot));
    ASSERT_TRUE(fits(item.row_end - item.row_begin, item.tile_end));
    ASSERT_EQ(item.k_begin % c.limits.SliceOf(k), 0);
    ASSERT_EQ(item.k_end, std::min(k, item.k_begin + c.limits.SliceOf(k)));
    for (int32_t row = item.row_begin; row < item.row_end; ++row) {
      ++slices[{item.part, row, item.k_begin}];
      rounds[{item.part, row}] = item.round;
      for (int32_t t = 0; t < item.tile_end; ++t) {
        const int64_t at =
            item.s_offset +
            (int64_t{t} * (item.row_end - item.row_begin) + row - item.row_begin) * item.s_stride;
        ASSERT_LE(at + c.limits.rank_quantum, plan.s_floats);
        const int times = ++floats[{0, 0, at}];
        ASSERT_EQ(times, 1);
      }
    }
  }
  for (const ExpandItem& item : plan.expands) {
    ASSERT_TRUE(fits(item.row_end - item.row_begin, item.tiles));
    ASSERT_EQ(item.column_begin % c.limits.column_quantum, 0);
    for (int32_t row = item.row_begin; row < item.row_end; ++row) {
      const int32_t round = rounds[{item.part, row}];
      ASSERT_EQ(item.round, round);
      for (int32_t n = item.column_begin; n < item.column_end; ++n) {
        ++columns[{item.part, row, n}];
      }
    }
  }
  for (const auto& [key, count] : Expected(c, p, false)) {
    const auto& [part, row, tile] = key;
    for (int64_t at = 0; tile == 0 && at < k; at += c.limits.SliceOf(k)) {
      expected_slices[{part, row, at}] = 1;
    }
  }
  ASSERT_TRUE(slices == expected_slices);
  ASSERT_TRUE(columns == Expected(c, p, true));
  for (int32_t worker = 0; worker < c.limits.workers; ++worker) {
    const auto w = static_cast<size_t>(worker);
    for (int32_t i = plan.shrink_begin[w] + 1; i < plan.shrink_begin[w + 1]; ++i) {
      ASSERT_LE(plan.shrinks[static_cast<size_t>(i) - 1].round,
                plan.shrinks[static_cast<size_t>(i)].round);
    }
    for (int32_t i = plan.expand_begin[w] + 1; i < plan.expand_begin[w + 1]; ++i) {
      ASSERT_LE(plan.expands[static_cast<size_t>(i) - 1].round,
                plan.expands[static_cast<size_t>(i)].round);
    }
  }
}

Case AnyCase(bool fused, bool split = false) {
  Case c;
  const int32_t workers = *rc::gen::inRange(1, 9);
  c.limits = split ? MeetingUnit(workers) : fused ? MatrixUnit(workers) : Cpu(workers);
  c.limits.row_block = fused ? *rc::gen::element(16, 48, 64) : *rc::gen::element(1, 5, 64);
  if (fused) c.limits.local_bytes = *rc::gen::element<int64_t>(0, 16 * 128 * 4, 65536);
  std::vector<int64_t> columns;
  const int parts = *rc::gen::inRange(1, 4);
  for (int part = 0; part < parts; ++part) columns.push_back(*rc::gen::inRange<int64_t>(1, 150));
  c.call = Qkv(*rc::gen::inRange<int64_t>(1, 100), columns);
  const int slots = *rc::gen::inRange(1, 6);
  for (int slot = 0; slot < slots; ++slot) {
    Ranks ranks;
    for (int part = 0; part < parts; ++part) {
      ranks.push_back(*rc::gen::oneOf(rc::gen::element(0, 8, 16), rc::gen::inRange(1, 129)));
    }
    c.ranks.push_back(ranks);
  }
  const int runs = *rc::gen::inRange(0, 12);
  for (int run = 0; run < runs; ++run) {
    const SlotId slot{*rc::gen::inRange(-1, slots)};
    const int length = *rc::gen::inRange(0, 5) == 0 ? *rc::gen::inRange(1, 100) : 1;
    c.rows.insert(c.rows.end(), static_cast<size_t>(length), slot);
  }
  return c;
}

TEST(Plan, TwoPhasesDoEachRowTileAndColumnOnce) {
  EXPECT_TRUE(rc::check([] {
    CheckTwoPhase(AnyCase(false));
    RC_ASSERT(!testing::Test::HasFatalFailure());
  }));
}

TEST(Plan, FusedItemsWriteEachElementOnce) {
  EXPECT_TRUE(rc::check([] {
    CheckFused(AnyCase(true));
    RC_ASSERT(!testing::Test::HasFatalFailure());
  }));
}

TEST(Plan, SplitItemsSumAndWriteEachElementOnce) {
  EXPECT_TRUE(rc::check([] {
    CheckSplit(AnyCase(true, true));
    RC_ASSERT(!testing::Test::HasFatalFailure());
  }));
}

// Sixteen adapters on twenty cores: no core has a fifth more to do than another.
TEST(Plan, SplitItemsShareOutEvenly) {
  Case c{Qkv(4096, {4096}), MeetingUnit(20), std::vector<Ranks>(16, Ranks{16}), {}};
  c.limits.slice_quantum = 512;
  c.limits.most_slices = 8;
  for (int32_t slot = 0; slot < 16; ++slot) c.rows.push_back({slot});
  CheckSplit(c);
  const Planned p(c);
  int64_t least = INT64_MAX, most = 0;
  for (size_t w = 0; w < 20; ++w) {
    int64_t work = 0;
    for (int32_t i = p.plan.shrink_begin[w]; i < p.plan.shrink_begin[w + 1]; ++i) {
      const ShrinkItem& item = p.plan.shrinks[static_cast<size_t>(i)];
      work += item.k_end - item.k_begin;
    }
    for (int32_t i = p.plan.expand_begin[w]; i < p.plan.expand_begin[w + 1]; ++i) {
      const ExpandItem& item = p.plan.expands[static_cast<size_t>(i)];
      work += item.column_end - item.column_begin;
    }
    least = std::min(least, work);
    most = std::max(most, work);
  }
  EXPECT_LE(most, least + least / 5);
}

TEST(Plan, TheArticlesCases) {
  for (const PlanLimits& limits : {Cpu(2), MatrixUnit(20)}) {
    Case c{Qkv(4096, {12288}), limits, {{16}, {0}, {32}}, {}};
    c.rows = {{0}, {2}, kBaseModel};
    limits.form == PlanLimits::Form::kFused ? CheckFused(c) : CheckTwoPhase(c);
    const Planned three(c);
    EXPECT_EQ(three.segments.order().size(), 2u);  // the base row is in no item

    c.ranks = {{16}, {16}, {32}};
    c.rows = {{0}, {2}, {0}, {1}};
    limits.form == PlanLimits::Form::kFused ? CheckFused(c) : CheckTwoPhase(c);

    c.rows = {{2}};
    limits.form == PlanLimits::Form::kFused ? CheckFused(c) : CheckTwoPhase(c);

    c.rows = {kBaseModel, kBaseModel, kBaseModel};
    const Planned none(c);
    EXPECT_TRUE(none.plan.empty());
    EXPECT_TRUE(none.plan.shrinks.empty());
    EXPECT_EQ(none.plan.s_floats, 0);
  }
}

TEST(Plan, RankTwentyIsPaddedToWholeTiles) {
  const Planned cpu(Case{Qkv(64, {64}), Cpu(1), {{20}}, {{0}}});
  EXPECT_EQ(cpu.plan.Scratch(0, 0, 1).tiles, 3);
  EXPECT_EQ(cpu.plan.s_floats, 24);
  const Planned unit(Case{Qkv(64, {64}), MatrixUnit(1), {{20}}, {{0}}});
  EXPECT_EQ(unit.plan.Scratch(0, 0, 1).tiles, 2);
}

// Six adapters of rank 16 cost one pass of the cube when one core takes them.
TEST(Plan, EqualRanksShareARowBlockOnOneCore) {
  Case c{Qkv(4096, {4096}), MatrixUnit(1), std::vector<Ranks>(6, Ranks{16}), {}};
  for (int32_t slot = 0; slot < 6; ++slot) c.rows.push_back({slot});
  CheckFused(c);
  EXPECT_EQ(Planned(c).plan.fused.size(), 1u);
  c.ranks[3] = {32};
  CheckFused(c);
  EXPECT_EQ(Planned(c).plan.fused.size(), 3u);
  // Half the S fits the core: two passes.
  c.ranks[3] = {16};
  c.limits.local_bytes = 3 * 16 * 16 * 4;
  CheckFused(c);
  EXPECT_EQ(Planned(c).plan.fused.size(), 2u);
  // With a core for each, grouping would only idle them.
  c.limits.workers = 6;
  CheckFused(c);
  EXPECT_GE(Planned(c).plan.fused.size(), 6u);
}

// One adapter, one row, twenty cores: columns are cut, but not so thin that the repeated shrink is
// all there is.
TEST(Plan, ColumnsOfAFewAdaptersAreCut) {
  Case c{Qkv(4096, {12288}), MatrixUnit(20), {{16}}, {{0}}};
  CheckFused(c);
  const Planned p(c);
  EXPECT_GE(p.plan.fused.size(), 4u);
  EXPECT_LE(p.plan.fused.size(), 20u);
  c.limits.workers = 1;
  EXPECT_EQ(Planned(c).plan.fused.size(), 1u);
}

// Bytes of A and products, the larger of the two: what a worker's shrinks cost.
std::vector<int64_t> ShrinkLoads(const Case& c, const LoraPlan& plan, int64_t* largest_unit) {
  std::vector<int64_t> loads;
  for (int32_t w = 0; w < plan.workers; ++w) {
    int64_t load = 0;
    for (int32_t i = plan.shrink_begin[static_cast<size_t>(w)];
         i < plan.shrink_begin[static_cast<size_t>(w) + 1]; ++i) {
      const ShrinkItem& item = plan.shrinks[static_cast<size_t>(i)];
      const int64_t unit = std::max(8, item.row_end - item.row_begin);
      *largest_unit = std::max(*largest_unit, unit);
      load += unit * (item.tile_end - item.tile_begin);
    }
    loads.push_back(load);
  }
  return loads;
}

TEST(Plan, ShrinksAreSharedEquallyToOneUnit) {
  EXPECT_TRUE(rc::check([] {
    const Case c = AnyCase(false);
    const Planned p(c);
    int64_t largest_unit = 0;
    const std::vector<int64_t> loads = ShrinkLoads(c, p.plan, &largest_unit);
    int64_t total = 0;
    for (int64_t load : loads) total += load;
    for (int64_t load : loads) {
      RC_ASSERT(load <= total / c.limits.workers + largest_unit + 1);
      RC_ASSERT(load >= total / c.limits.workers - largest_unit - 1);
    }
  }));
}

TEST(Plan, OneLongPromptIsShrunkByAllWorkers) {
  Case c{Qkv(576, {576}), Cpu(4), {{8}}, TokenMap(64, SlotId{0})};
  CheckTwoPhase(c);
  int64_t unit = 0;
  const Planned p(c);
  for (int64_t load : ShrinkLoads(c, p.plan, &unit)) EXPECT_EQ(load, 16);
}

// A row's S lies elsewhere, but the same tiles and columns serve it, wherever it stands.
TEST(Plan, APermutationOfRowsGivesTheSamePlan) {
  Case c{Qkv(64, {64, 32}), Cpu(3), {{16, 8}, {4, 0}, {0, 40}}, {}};
  c.rows = {{0}, {1}, {2}, kBaseModel, {0}, {2}, {2}, {1}};
  const Planned straight(c);
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    std::shuffle(c.rows.begin(), c.rows.end(), random);
    CheckTwoPhase(c);
    const Planned p(c);
    ASSERT_EQ(p.plan.shrinks.size(), straight.plan.shrinks.size());
    ASSERT_EQ(p.plan.expands.size(), straight.plan.expands.size());
    ASSERT_EQ(p.plan.s_floats, straight.plan.s_floats);
  }
}

TEST(WorkerColumns, AreWholePanelsThatCoverAllColumns) {
  EXPECT_TRUE(rc::check([] {
    const int64_t n = *rc::gen::inRange<int64_t>(1, 5000);
    const int32_t quantum = *rc::gen::element(1, 16, 64);
    const int32_t workers = *rc::gen::inRange(1, 70);
    int32_t end = 0;
    for (int32_t w = 0; w < workers; ++w) {
      const ColumnRange range = WorkerColumns(n, quantum, workers, w);
      RC_ASSERT(range.begin == end);
      RC_ASSERT(range.begin % quantum == 0 || range.begin == range.end);
      RC_ASSERT(range.end >= range.begin);
      end = range.end;
    }
    RC_ASSERT(end == n);
  }));
}

class StepPlannerTest : public testing::Test {
 protected:
  // Slot s acts with rank 8 (1 + s % 8) on q and v of both layers; slot 0 on q of layer 0 alone.
  void SetUp() override {
    for (int32_t slot = 0; slot < 64; ++slot) {
      const int32_t rank = 8 * (1 + slot % 8);
      auto sites = TilesOf({rank, 0, rank}, 8, 0);
      if (slot == 0) {
        sites = TilesOf({rank, 0, 0}, 8, 0);
      } else {
        for (auto& site : TilesOf({rank, 0, rank}, 8, 1)) sites.push_back(site);
      }
      table_.Install({slot}, sites);
    }
  }
  static CallSites Layer(int32_t layer) {
    CallSites call = Qkv(576, {576, 192, 192});
    call.layer = layer;
    call.site = kSites.SitesOf(CallKind::kQkv, layer).site;
    return call;
  }

  WeightTable table_{kSites, 64};
  SegmentTable segments_;
};

TEST_F(StepPlannerTest, CallsOfEqualSignatureShareAPlan) {
  StepPlanner planner(Cpu(2));
  segments_.Build(TokenMap{{1}, {2}, {3}});
  planner.Begin(&segments_, &table_);
  const LoraPlan* first = planner.Plan(Layer(0));
  EXPECT_FALSE(first->empty());
  EXPECT_EQ(planner.Plan(Layer(1)), first);
  EXPECT_EQ(planner.distinct_plans(), 1);
  CallSites other = Layer(1);
  other.shape[0].n = 640;
  EXPECT_NE(planner.Plan(other), first);
  EXPECT_EQ(planner.distinct_plans(), 2);
  EXPECT_EQ(first, planner.Plan(Layer(0)));
  EXPECT_EQ(planner.max_s_floats(), 2 * (16 + 24 + 32));

  segments_.Build(TokenMap{{0}, {1}});
  planner.Begin(&segments_, &table_);
  EXPECT_EQ(planner.distinct_plans(), 0);
  EXPECT_EQ(planner.max_s_floats(), 0);
  EXPECT_NE(planner.Plan(Layer(0)), planner.Plan(Layer(1)));
}

TEST_F(StepPlannerTest, NoActiveSlotAtTheCallMeansAnEmptyPlan) {
  StepPlanner planner(Cpu(2));
  segments_.Build(TokenMap{{0}, kBaseModel});
  planner.Begin(&segments_, &table_);
  EXPECT_FALSE(planner.Plan(Layer(0))->empty());
  EXPECT_TRUE(planner.Plan(Layer(1))->empty());

  segments_.Build(TokenMap{kBaseModel, kBaseModel});
  planner.Begin(&segments_, &table_);
  EXPECT_TRUE(planner.Plan(Layer(0))->empty());
  EXPECT_EQ(planner.distinct_plans(), 0);
}

// 64 segments of mixed ranks, 30 layers: what a step pays. The time is printed, not judged.
TEST_F(StepPlannerTest, ASteadyStepAllocatesNothing) {
  TokenMap rows;
  for (int32_t slot = 63; slot >= 0; --slot) rows.push_back({slot});
  const std::array<CallSites, 2> calls = {Layer(0), Layer(1)};
  for (const PlanLimits& limits : {Cpu(2), Cpu(16), MatrixUnit(20)}) {
    StepPlanner planner(limits);
    const auto step = [&] {
      segments_.Build(rows);
      planner.Begin(&segments_, &table_);
      for (int32_t layer = 0; layer < 30; ++layer)
        planner.Plan(calls[static_cast<size_t>(layer % 2)]);
    };
    step();
    const int64_t before = AllocationCount();
    const auto begin = std::chrono::steady_clock::now();
    constexpr int kSteps = 200;
    for (int i = 0; i < kSteps; ++i) step();
    const std::chrono::duration<double, std::micro> spent =
        std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(AllocationCount(), before);
    std::printf(
        "segments and plans of a step, 64 segments, 30 calls, %d plans, %d workers%s: "
        "%.1f us\n",
        planner.distinct_plans(), limits.workers,
        limits.form == PlanLimits::Form::kFused ? ", fused" : "", spent.count() / kSteps);
  }
}

}  // namespace
}  // namespace lorica::lora
