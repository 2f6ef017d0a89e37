// The operator for arch 2002 over random steps, and its rows under other plans.
#include <gtest/gtest.h>
// After gtest.
#include <rapidcheck/gtest.h>

#include "lorica/kernels/ascend/operator_fixture.h"

namespace lorica::ascend {
namespace {

using lora::SlotId;

std::unique_ptr<Simulator> OpenChip() {
  Result<std::unique_ptr<Simulator>> simulator = Simulator::Open("310P3");
  LORICA_CHECK(simulator.ok());
  return std::move(simulator).value();
}

TEST(LoraLinear310, RandomStepsAreRightAndRowsKeepTheirBits) {
  const auto chip = OpenChip();
  double worst = 0;
  EXPECT_TRUE(rc::check([&] {
    std::mt19937 random(*rc::gen::arbitrary<uint32_t>());
    const auto below = [&](uint32_t n) { return static_cast<int32_t>(random() % n); };
    OperatorShape shape;
    shape.arch = Arch::k2002;
    shape.k = 16 * (1 + below(below(2) == 0 ? 6 : 44));
    const int32_t parts = 1 + below(3);
    for (int32_t i = 0; i < parts; ++i) shape.n.push_back(16 * (1 + below(16)));
    const double scales[] = {1.0, 2.0, 0.5, 16.0 / 6, 64 / std::sqrt(32.0)};
    const int32_t adapters = 1 + below(10);
    for (int32_t i = 0; i < adapters; ++i) {
      shape.ranks.push_back(below(6) == 0 ? 1 + below(256) : 8 * (1 + below(4)));
      shape.scales.push_back(scales[below(5)]);
    }
    OperatorProblem problem(shape, static_cast<uint32_t>(random()));
    std::vector<SlotId> slots;
    const int32_t rows = 1 + below(below(4) == 0 ? 256 : 20);
    for (int32_t row = 0; row < rows; ++row) {
      slots.push_back(below(6) == 0 ? lora::kBaseModel
                                    : SlotId{below(static_cast<uint32_t>(adapters))});
    }
    const auto before = problem.RandomStep(slots);
    const auto run = [&](const lora::PlanLimits& limits) {
      auto after = before;
      OperatorProblem::RunOptions options;
      options.limits = limits;
      options.launch.timeline = false;
      options.launch.type = KernelType::kAivOnly;
      const auto result = problem.Run(chip.get(), options, &after);
      if (!result.launch.report.ok()) RC_FAIL(result.launch.report.ToString());
      return after;
    };
    const auto after = run(LimitsOf(8, Arch::k2002));
    RC_ASSERT(problem.CountWrong(before, after, YKind::kFused, &worst) == 0);
    lora::PlanLimits other = LimitsOf(1 + below(8), Arch::k2002);
    other.row_block = 16;
    const auto again = run(other);
    RC_ASSERT(again.y == after.y);
  }));
  std::printf("largest error / bound: %.3f\n", worst);
}

}  // namespace
}  // namespace lorica::ascend
