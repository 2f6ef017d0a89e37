#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "lorica/kernels/ascend/operator_fixture.h"

namespace lorica::ascend {
namespace {

using lora::SlotId;

std::unique_ptr<Simulator> OpenChip(const char* soc) {
  Result<std::unique_ptr<Simulator>> simulator = Simulator::Open(soc);
  LORICA_CHECK(simulator.ok());
  return std::move(simulator).value();
}

std::vector<SlotId> Slots(std::initializer_list<int32_t> indices) {
  std::vector<SlotId> slots;
  for (const int32_t index : indices) slots.push_back(index < 0 ? lora::kBaseModel : SlotId{index});
  return slots;
}

// Runs one step and expects no finding of the model and no element outside its bound.
void ExpectRight(Simulator* simulator, OperatorProblem* problem, const std::vector<SlotId>& slots,
                 const OperatorProblem::RunOptions& options = {}) {
  const OperatorProblem::Step before = problem->RandomStep(slots);
  OperatorProblem::Step after = before;
  const auto result = problem->Run(simulator, options, &after);
  ASSERT_TRUE(result.launch.report.ok()) << result.launch.report.ToString();
  double worst = 0;
  EXPECT_EQ(problem->CountWrong(before, after, options.y, &worst), 0) << worst;
}

TEST(LoraLinear, OneTokenOneAdapter) {
  const auto chip = OpenChip("910B3");
  OperatorProblem problem({64, {32}, {16}, {}, DType::kF16}, 1);
  ExpectRight(chip.get(), &problem, Slots({0}));
}

TEST(LoraLinear, ArticleDecodeStep) {
  const auto chip = OpenChip("910B3");
  // Ids [0, 2, -1] of chapter 3.4, ranks 16 and 32, smaller K and N.
  OperatorProblem problem({1040, {272, 48}, {16, 8, 32}, {}, DType::kBF16}, 2);
  ExpectRight(chip.get(), &problem, Slots({0, 2, -1}));
}

TEST(LoraLinear, EveryKindOfResidual) {
  const auto chip = OpenChip("910B1");
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    for (const YKind kind : {YKind::kFused, YKind::kAtomic, YKind::kF32}) {
      for (const bool split : {false, true}) {
        OperatorShape shape{144, {80}, {16, 24}, {}, dtype};
        shape.split = split;
        OperatorProblem problem(shape, 3);
        OperatorProblem::RunOptions options;
        options.y = kind;
        options.limits = split ? SplitLimitsOf(24) : LimitsOf(24);
        ExpectRight(chip.get(), &problem, Slots({1, 0, -1, 1}), options);
      }
    }
  }
}

// Eight slices, the last one short, and rows beyond one pass of their sums.
TEST(LoraLinear, SplitSlices) {
  const auto chip = OpenChip("910B3");
  OperatorShape shape{4080, {96, 48}, {16, 64, 256}, {16.0 / 6, 1.0, 0.5}, DType::kBF16};
  shape.split = true;
  OperatorProblem problem(shape, 6);
  std::vector<SlotId> slots;
  for (int32_t i = 0; i < 150; ++i) slots.push_back(SlotId{i < 100 ? 0 : i < 140 ? 1 : 2});
  for (const int32_t cores : {20, 3, 1}) {
    OperatorProblem::RunOptions options;
    options.limits = SplitLimitsOf(cores);
    ExpectRight(chip.get(), &problem, slots, options);
  }
}

// Sums of more tiles than come at once, where the first of them are already asked for: on few cores
// and on many, with one chunk after them and with several.
TEST(LoraLinear, SplitSumsComeInBatches) {
  const auto chip = OpenChip("910B3");
  for (const int32_t rows : {17, 70, 128}) {
    for (const int64_t n : {80, 1456}) {
      OperatorShape shape{1680, {n}, {256, 64, 40}, {}, DType::kF16};
      shape.split = true;
      OperatorProblem problem(shape, 9);
      std::vector<SlotId> slots;
      for (int32_t i = 0; i < rows; ++i) slots.push_back(SlotId{i / 5 * 7 % 4 - 1});
      for (const int32_t cores : {1, 2, 3, 7}) {
        OperatorProblem::RunOptions options;
        options.limits = SplitLimitsOf(cores);
        ExpectRight(chip.get(), &problem, slots, options);
      }
    }
  }
}

// A tenant whose numbers overflow ends alone: rows of another adapter and of the same one, in the
// same tile of 16, keep their bits.
TEST(LoraLinear, WhatIsNotFiniteStaysInItsRow) {
  const auto chip = OpenChip("910B3");
  OperatorProblem problem({528, {560}, {16, 16}, {}, DType::kF16}, 4);
  const OperatorProblem::Step clean = problem.RandomStep(Slots({0, 1, 0, 1, 1}));
  OperatorProblem::Step right = clean;
  problem.Run(chip.get(), {}, &right);
  OperatorProblem::Step poisoned = clean;
  for (int64_t k = 0; k < 528; ++k) poisoned.x[528 + static_cast<size_t>(k)] = 60000.0f;
  poisoned.y[0][3 * 560 + 17] = INFINITY;
  problem.Run(chip.get(), {}, &poisoned);
  for (const size_t row : {0u, 2u, 4u}) {
    EXPECT_EQ(std::memcmp(right.y[0].data() + row * 560, poisoned.y[0].data() + row * 560,
                          560 * sizeof(float)),
              0)
        << "row " << row;
  }
}

TEST(LoraLinear, NoAdapterNoItems) {
  OperatorProblem problem({64, {32}, {16}, {}, DType::kF16}, 1);
  lora::SegmentTable segments;
  segments.Build(Slots({-1, -1}));
  lora::LoraPlan plan;
  lora::BuildPlan(problem.Call(), segments, problem.table(), LimitsOf(20), &plan);
  EXPECT_TRUE(plan.empty());
}

TEST(Lowering, RefusesWithLimitAndFigure) {
  OperatorProblem problem({64, {32}, {16}, {}, DType::kF16}, 1);
  lora::SegmentTable segments;
  segments.Build(Slots({0}));
  lora::LoraPlan plan;
  lora::CallSites call = problem.Call();
  lora::BuildPlan(call, segments, problem.table(), LimitsOf(20), &plan);
  std::vector<uint64_t> y = {4096};
  LoweringInput input;
  input.call = &call;
  input.plan = &plan;
  input.segments = &segments;
  input.table = &problem.table();
  input.y = y;
  LoraProgram program;
  EXPECT_TRUE(Lower(input, &program).ok());
  y[0] = 4104;
  EXPECT_NE(Lower(input, &program).message().find("multiple of 32"), std::string::npos);
  y[0] = 4096;
  // Lengths that are no tiles.
  call.shape[0].k = 28688;
  EXPECT_NE(Lower(input, &program).message().find("found 28688"), std::string::npos);
  call.shape[0].k = 56;
  EXPECT_NE(Lower(input, &program).message().find("multiple of 16 up to 28672"), std::string::npos);
  call.shape[0].k = 64;
  call.shape[0].n = 24;
  EXPECT_NE(Lower(input, &program).message().find("found 24"), std::string::npos);
  call.shape[0].n = 32;
  // An arena that is not aligned on the device.
  input.translate = [](const std::byte*) { return uint64_t{520}; };
  EXPECT_NE(Lower(input, &program).message().find("tile: expected an address that is a multiple"),
            std::string::npos);
  input.translate = nullptr;
  // Another weight than the one in B: a mix of adapters by other weights.
  lora::WeightTable table(lora::SiteSpace{1}, 1);
  lora::TileRef tile = problem.table().Entry(SlotId{0}, call.site[0]).tiles[0];
  tile.scale = 0.25f;
  table.Install(SlotId{0}, {{call.site[0], {tile}}});
  input.table = &table;
  const Status status = Lower(input, &program);
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("found a weight of 0.25"), std::string::npos) << status.message();
}

// Rows x ranks, and a rank, beyond what an item holds: plans of other limits than the chip's.
TEST(Lowering, RefusesItemsThatDoNotFit) {
  OperatorProblem problem({64, {32}, {256, 256}, {}, DType::kF16}, 1);
  lora::SegmentTable segments;
  segments.Build(std::vector<SlotId>(128, SlotId{0}));
  const lora::CallSites call = problem.Call();
  for (const bool split : {false, true}) {
    lora::PlanLimits limits = split ? SplitLimitsOf(1) : LimitsOf(1);
    limits.local_bytes = 0;
    lora::LoraPlan plan;
    lora::BuildPlan(call, segments, problem.table(), limits, &plan);
    const std::vector<uint64_t> y = {4096};
    LoweringInput input;
    input.call = &call;
    input.plan = &plan;
    input.segments = &segments;
    input.table = &problem.table();
    input.y = y;
    LoraProgram program;
    const Status status = Lower(input, &program);
    EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
    EXPECT_NE(status.message().find(split ? "8192 rows x ranks" : "16384 rows x ranks"),
              std::string::npos)
        << status.message();
  }
}

// A request that mixes two adapters by weights of its own is one more slot. Whole items refuse it
// (above); split items scale S, so they give what the weights say.
TEST(LoraLinear, SplitItemsMixAdaptersByWeight) {
  const auto chip = OpenChip("910B3");
  OperatorShape shape{1040, {272}, {16, 40, 16}, {1.0, 16.0 / 6, 1.0}, DType::kF16};
  shape.split = true;
  OperatorProblem problem(shape, 5);
  const OperatorProblem::Step alone = problem.RandomStep(Slots({0, 1, 2}));
  OperatorProblem::Step mixed = alone;
  for (int64_t row = 1; row < 3; ++row) {
    std::copy_n(alone.x.begin(), 1040, mixed.x.begin() + row * 1040);
    std::copy_n(alone.y[0].begin(), 272, mixed.y[0].begin() + row * 272);
  }
  const OperatorProblem::Step start = mixed;
  OperatorProblem::RunOptions options;
  options.limits = SplitLimitsOf(20);
  // Rows of adapters 0 and 1 alone, then a row of both in slot 2, all of one x and y.
  problem.Run(chip.get(), options, &mixed);
  OperatorProblem::Step both = start;
  problem.MixInto(SlotId{2}, {{SlotId{0}, 0.25f}, {SlotId{1}, 1.5f}});
  const auto result = problem.Run(chip.get(), options, &both);
  ASSERT_TRUE(result.launch.report.ok()) << result.launch.report.ToString();
  for (int64_t c = 0; c < 272; ++c) {
    const auto at = [&](const OperatorProblem::Step& step, int64_t row) {
      return double{step.y[0][static_cast<size_t>(row * 272 + c)]};
    };
    const double y = at(start, 0);
    const double want = y + 0.25 * (at(mixed, 0) - y) + 1.5 * (at(mixed, 1) - y);
    EXPECT_NEAR(at(both, 2), want, 0.01 + 0.002 * std::fabs(want)) << c;
  }
}

}  // namespace
}  // namespace lorica::ascend
