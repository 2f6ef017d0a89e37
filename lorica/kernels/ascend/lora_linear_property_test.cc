// The operator over random steps: right within its bound, no finding of the model, and a row's bits
// the same under every plan.
#include <gtest/gtest.h>
// After gtest.
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "lorica/kernels/ascend/operator_fixture.h"

namespace lorica::ascend {
namespace {

using lora::SlotId;

std::unique_ptr<Simulator> OpenChip(const char* soc) {
  Result<std::unique_ptr<Simulator>> simulator = Simulator::Open(soc);
  LORICA_CHECK(simulator.ok());
  return std::move(simulator).value();
}

OperatorShape RandomShape(std::mt19937* random, bool f16, bool split) {
  const auto below = [&](uint32_t n) { return static_cast<int32_t>((*random)() % n); };
  OperatorShape shape;
  shape.dtype = f16 ? DType::kF16 : DType::kBF16;
  shape.split = split;
  shape.k = 16 * (1 + below(below(2) == 0 ? 6 : 44));  // past one block of 512 at times
  const int32_t parts = 1 + below(3);
  for (int32_t i = 0; i < parts; ++i) shape.n.push_back(16 * (1 + below(20)));
  const int32_t adapters = 1 + below(below(3) == 0 ? 32 : 6);
  const int32_t usual[] = {1, 4, 8, 16, 16, 16, 24, 32, 64};
  const double scales[] = {1.0, 2.0, 0.5, 16.0 / 6, 64 / std::sqrt(32.0)};
  for (int32_t i = 0; i < adapters; ++i) {
    shape.ranks.push_back(below(6) == 0 ? 1 + below(256) : usual[below(9)]);
    shape.scales.push_back(scales[below(5)]);
  }
  return shape;
}

std::vector<SlotId> RandomSlots(std::mt19937* random, int32_t adapters) {
  const auto below = [&](uint32_t n) { return static_cast<int32_t>((*random)() % n); };
  std::vector<SlotId> slots;
  const int32_t rows = 1 + below(below(4) == 0 ? 256 : 24);
  const bool runs = below(2) == 0;
  SlotId last = SlotId{0};
  for (int32_t row = 0; row < rows; ++row) {
    if (!runs || row == 0 || below(7) == 0) {
      last = below(6) == 0 ? lora::kBaseModel : SlotId{below(static_cast<uint32_t>(adapters))};
    }
    slots.push_back(last);
  }
  return slots;
}

lora::PlanLimits LimitsFor(bool split, int32_t cores) {
  return split ? SplitLimitsOf(cores) : LimitsOf(cores);
}

// Of whole items, and of split ones.
class LoraLinearProperty : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Forms, LoraLinearProperty, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Split" : "Whole"; });

TEST_P(LoraLinearProperty, RandomStepsAreRight) {
  const auto b3 = OpenChip("910B3");
  const auto b1 = OpenChip("910B1");
  double worst = 0;
  EXPECT_TRUE(rc::check([&] {
    std::mt19937 random(*rc::gen::arbitrary<uint32_t>());
    const OperatorShape shape = RandomShape(&random, random() % 2 == 0, GetParam());
    OperatorProblem problem(shape, static_cast<uint32_t>(random()));
    const auto before =
        problem.RandomStep(RandomSlots(&random, static_cast<int32_t>(shape.ranks.size())));
    auto after = before;
    OperatorProblem::RunOptions options;
    const bool big = random() % 2 == 0;
    options.limits = LimitsFor(GetParam(), 1 + static_cast<int32_t>(random() % (big ? 24 : 20)));
    const YKind kinds[] = {YKind::kFused, YKind::kFused, YKind::kAtomic, YKind::kF32};
    options.y = kinds[random() % 4];
    options.launch.timeline = false;
    const auto result = problem.Run(big ? b1.get() : b3.get(), options, &after);
    if (!result.launch.report.ok()) RC_FAIL(result.launch.report.ToString());
    RC_ASSERT(result.launch.report.gemv_mmads == 0);
    RC_ASSERT(problem.CountWrong(before, after, options.y, &worst) == 0);
  }));
  std::printf("largest error / bound: %.3f\n", worst);
}

TEST_P(LoraLinearProperty, RowsAreTheSameBitsUnderEveryPlan) {
  const auto chip = OpenChip("910B1");
  EXPECT_TRUE(rc::check([&] {
    std::mt19937 random(*rc::gen::arbitrary<uint32_t>());
    const OperatorShape shape = RandomShape(&random, random() % 2 == 0, GetParam());
    OperatorProblem problem(shape, static_cast<uint32_t>(random()));
    const auto before =
        problem.RandomStep(RandomSlots(&random, static_cast<int32_t>(shape.ranks.size())));
    const auto rows = before.slots.size();
    const auto run = [&](const OperatorProblem::Step& step, const lora::PlanLimits& limits) {
      OperatorProblem::Step after = step;
      OperatorProblem::RunOptions options;
      options.launch.timeline = false;
      options.limits = limits;
      const auto result = problem.Run(chip.get(), options, &after);
      if (!result.launch.report.ok()) RC_FAIL(result.launch.report.ToString());
      return after;
    };
    // Rows by index, as a step of their own.
    const auto take = [&](const std::vector<size_t>& index) {
      OperatorProblem::Step step;
      for (size_t part = 0; part < shape.n.size(); ++part) step.y.emplace_back();
      for (const size_t row : index) {
        step.slots.push_back(before.slots[row]);
        const auto k = static_cast<size_t>(shape.k);
        step.x.insert(step.x.end(), before.x.begin() + static_cast<int64_t>(row * k),
                      before.x.begin() + static_cast<int64_t>((row + 1) * k));
        for (size_t part = 0; part < shape.n.size(); ++part) {
          const auto n = static_cast<size_t>(shape.n[part]);
          const auto& y = before.y[part];
          step.y[part].insert(step.y[part].end(), y.begin() + static_cast<int64_t>(row * n),
                              y.begin() + static_cast<int64_t>((row + 1) * n));
        }
      }
      return step;
    };
    const auto same = [&](const OperatorProblem::Step& all, const OperatorProblem::Step& part_of,
                          const std::vector<size_t>& index) {
      for (size_t part = 0; part < shape.n.size(); ++part) {
        const auto n = static_cast<size_t>(shape.n[part]);
        for (size_t i = 0; i < index.size(); ++i) {
          if (std::memcmp(all.y[part].data() + index[i] * n, part_of.y[part].data() + i * n,
                          n * sizeof(float)) != 0) {
            return false;
          }
        }
      }
      return true;
    };
    const OperatorProblem::Step whole = run(before, LimitsFor(GetParam(), 24));
    std::vector<size_t> all(rows);
    for (size_t i = 0; i < rows; ++i) all[i] = i;
    // Other cores, smaller blocks, no room for grouping.
    lora::PlanLimits other = LimitsFor(GetParam(), 1 + static_cast<int32_t>(random() % 24));
    other.row_block = 16 << (random() % 3);
    RC_ASSERT(same(whole, run(before, other), all));
    other.local_bytes = 16 * 256 * 4;
    RC_ASSERT(same(whole, run(before, other), all));
    // In another order, and each of a few alone.
    std::vector<size_t> shuffled = all;
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    RC_ASSERT(same(whole, run(take(shuffled), LimitsFor(GetParam(), 20)), shuffled));
    for (int i = 0; i < 3; ++i) {
      const std::vector<size_t> one = {random() % rows};
      RC_ASSERT(same(whole, run(take(one), LimitsFor(GetParam(), 20)), one));
    }
  }));
}

}  // namespace
}  // namespace lorica::ascend
