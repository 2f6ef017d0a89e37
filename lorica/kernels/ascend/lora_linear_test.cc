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
      OperatorProblem problem({144, {80}, {16, 24}, {}, dtype}, 3);
      OperatorProblem::RunOptions options;
      options.y = kind;
      options.limits = LimitsOf(24);
      ExpectRight(chip.get(), &problem, Slots({1, 0, -1, 1}), options);
    }
  }
}

}  // namespace
}  // namespace lorica::ascend
