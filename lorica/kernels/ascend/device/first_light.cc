// The first program to run on a chip: a few steps on the device and on the AI Core model, compared
// bit by bit and with the fp64 value. docs/ascend.md says what to expect. Not built in CI.
#include <cstdio>

#include "lorica/kernels/ascend/device/acl_operator.h"
#include "lorica/kernels/ascend/operator_fixture.h"

namespace lorica::ascend {
namespace {

struct Setup {
  const char* name;
  OperatorShape shape;
  std::vector<lora::SlotId> slots;
};

lora::PlanLimits LimitsFor(const OperatorShape& shape, int32_t cores) {
  return shape.split ? SplitLimitsOf(cores) : LimitsOf(cores);
}

std::vector<lora::SlotId> Slots(int32_t rows, int32_t adapters) {
  std::vector<lora::SlotId> slots;
  for (int32_t i = 0; i < rows; ++i) slots.push_back(lora::SlotId{i % (adapters + 1) - 1});
  return slots;
}

int Run() {
  auto device = AclDevice::Open(0);
  if (!device.ok()) {
    std::fprintf(stderr, "%s\n", device.status().ToString().c_str());
    return 1;
  }
  auto model = Simulator::Open("910B3").value();
  const Setup setups[] = {
      {"one token, one tile", {64, {32}, {16}, {}, DType::kF16, Arch::k2201}, {lora::SlotId{0}}},
      {"decode",
       {4096, {4096}, std::vector<int32_t>(16, 16), {}, DType::kF16, Arch::k2201},
       Slots(17, 16)},
      {"ranks", {4096, {1024}, {1, 24, 64, 256}, {}, DType::kBF16, Arch::k2201}, Slots(40, 4)},
      {"prompt", {2048, {2048}, {64}, {}, DType::kBF16, Arch::k2201}, Slots(600, 1)},
  };
  int wrong_setups = 0;
  for (int i = 0; i < 8; ++i) {
    Setup setup = setups[i / 2];
    setup.shape.split = i % 2 != 0;
    const auto limits = LimitsFor(setup.shape, model->soc().cube_cores);
    OperatorProblem problem(setup.shape, 1);
    const auto before = problem.RandomStep(setup.slots);
    auto modelled = before;
    OperatorProblem::RunOptions options;
    options.limits = limits;
    problem.Run(model.get(), options, &modelled);
    auto after = before;
    lora::SegmentTable segments;
    segments.Build(before.slots);
    lora::LoraPlan plan;
    const lora::CallSites sites = problem.Call();
    lora::BuildPlan(sites, segments, problem.table(), limits, &plan);
    AclOperator::Call call;
    const bool f16 = setup.shape.dtype == DType::kF16;
    if (setup.shape.split) {
      call.kernel = f16 ? DeviceKernel::kSplitF16 : DeviceKernel::kSplitBf16;
    } else {
      call.kernel = f16 ? DeviceKernel::kF16 : DeviceKernel::kBf16;
    }
    call.lowering.call = &sites;
    call.lowering.plan = &plan;
    call.lowering.segments = &segments;
    call.lowering.table = &problem.table();
    auto x = problem.Encode(before.x);
    auto identity = problem.Identity();
    auto y = problem.Encode(before.y[0]);
    call.x = std::as_bytes(std::span(x));
    call.identity = std::as_bytes(std::span(identity));
    call.y = {std::as_writable_bytes(std::span(y))};
    AclOperator op(device->get());
    if (const Status status = op.Run(&call); !status.ok()) {
      std::fprintf(stderr, "%s: %s\n", setup.name, status.ToString().c_str());
      return 1;
    }
    int64_t bits = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      after.y[0][i] = problem.Value(y[i]);
      bits += after.y[0][i] != modelled.y[0][i] ? 1 : 0;
    }
    double worst = 0;
    const int64_t wrong = problem.CountWrong(before, after, YKind::kFused, &worst);
    wrong_setups += wrong != 0 ? 1 : 0;
    std::printf(
        "%s, %s: %lld of %zu elements outside the bound (largest error / bound %.3f), %lld "
        "differ from the model in a bit\n",
        setup.name, setup.shape.split ? "split" : "whole", static_cast<long long>(wrong), y.size(),
        worst, static_cast<long long>(bits));
  }
  return wrong_setups;
}

}  // namespace
}  // namespace lorica::ascend

int main() { return lorica::ascend::Run(); }
