// The opponents are right too: a ratio against a kernel that is wrong says nothing.
#include <gtest/gtest.h>

#include "lorica/kernels/ascend/baseline_fixture.h"

namespace lorica::ascend {
namespace {

using lora::SlotId;

class Baseline : public ::testing::Test {
 protected:
  Baseline()
      : chip_(Simulator::Open("910B3").value()),
        problem_({4144, {1104, 48}, {8, 16, 32, 64}, {}, DType::kF16}, 7) {
    std::vector<SlotId> slots;
    for (int32_t i = 0; i < 60; ++i) slots.push_back(SlotId{i % 5 - 1});
    before_ = problem_.RandomStep(slots);
    after_ = before_;
  }
  std::unique_ptr<Simulator> chip_;
  OperatorProblem problem_;
  OperatorProblem::Step before_, after_;
};

TEST_F(Baseline, VectorKernelsAreRight) {
  const BaselineResult result = RunVectorBaseline(chip_.get(), problem_, false, {}, &after_);
  EXPECT_TRUE(result.report.ok()) << result.report.ToString();
  EXPECT_EQ(result.launches, 4);
  double worst = 0;
  EXPECT_EQ(problem_.CountWrong(before_, after_, YKind::kFused, &worst), 0) << worst;
}

TEST_F(Baseline, OneAdapterAtATimeIsTheSameToTheBit) {
  OperatorProblem::Step whole = before_;
  problem_.Run(chip_.get(), {}, &whole);
  const BaselineResult result = RunOneAtATime(chip_.get(), &problem_, {}, &after_);
  EXPECT_TRUE(result.report.ok()) << result.report.ToString();
  EXPECT_EQ(result.launches, 4);
  EXPECT_EQ(whole.y, after_.y);
}

}  // namespace
}  // namespace lorica::ascend
