// Runs one mutant of one kernel (scripts/ascend_mutations.py builds it) over small steps that reach
// every line of the kernel, and prints who noticed: "checker (kinds)", "oracle" or "survived".
//   runner NUMBER [EVENT ID]
#include <cstdio>
#include <cstdlib>

#include "lorica/kernels/ascend/base_linear.h"
#include "lorica/kernels/ascend/baseline_fixture.h"

int lorica_mutant = 0;
const char* lorica_event = "";
int lorica_event_id = -1;
bool lorica_event_used = false;

namespace lorica::ascend {
namespace {

using lora::SlotId;

struct Verdict {
  bool wrong = false;
  SimReport report;
};

// Stops the program with the verdict when there is one.
void Judge(const SimReport& report, bool wrong) {
  if (!report.ok()) {
    std::printf("checker: %s\n", ErrorKindName(report.errors.front().kind));
    std::exit(0);
  }
  if (report.gemv_mmads > 0) {
    std::printf("checker: a product of one row\n");
    std::exit(0);
  }
  if (wrong) {
    std::printf("oracle\n");
    std::exit(0);
  }
}

std::vector<SlotId> Slots(int32_t rows, int32_t adapters, int32_t run) {
  std::vector<SlotId> slots;
  for (int32_t i = 0; i < rows; ++i) slots.push_back(SlotId{i / run * 7 % (adapters + 1) - 1});
  return slots;
}

[[maybe_unused]] void RunOperator(const char* soc, Arch arch) {
  auto chip = Simulator::Open(soc).value();
  struct Setup {
    OperatorShape shape;
    std::vector<SlotId> slots;
    int32_t cores;
    int32_t row_block;
  };
  const std::vector<Setup> setups = {
      {{1168, {1616, 48}, {16, 48, 16, 16, 16}, {2, 1, 16.0 / 6, 1, 1}}, Slots(21, 5, 1), 2, 128},
      {{1680, {144}, {64, 256, 40}, {}}, Slots(70, 3, 5), 3, 128},
      {{656, {176, 2064}, {16, 48}, {}}, Slots(130, 2, 50), 2, 128},
      {{2080, {80}, {16, 16, 16}, {}}, Slots(40, 3, 11), 1, 32},
      {{1168, {176}, {128, 40}, {}}, Slots(256, 2, 128), 1, 128},
      {{1680, {176}, {48}, {}}, Slots(200, 1, 110), 1, 96},
      {{144, {176}, {256}, {}}, Slots(128, 1, 64), 1, 64},
      {{144, {256}, {16}, {}}, Slots(128, 1, 64), 1, 64},    // full chunks
      {{144, {320}, {64}, {}}, Slots(32, 1, 16), 1, 128},    // full places of L0B
      {{3600, {80}, {16}, {}}, Slots(256, 1, 128), 1, 128},  // eight slices of 128 rows
  };
  struct Way {
    YKind kind;
    bool split;
  };
  for (const Setup& setup : setups) {
    for (const auto& [kind, split] : {Way{YKind::kFused, false}, Way{YKind::kFused, true},
                                      Way{YKind::kAtomic, false}, Way{YKind::kAtomic, true}}) {
      if (arch == Arch::k2002 && (kind != YKind::kFused || split)) continue;
      OperatorShape shape = setup.shape;
      shape.arch = arch;
      shape.split = split;
      OperatorProblem problem(shape, 11);
      const auto before = problem.RandomStep(setup.slots);
      auto after = before;
      OperatorProblem::RunOptions options;
      options.y = kind;
      options.limits = split ? SplitLimitsOf(setup.cores) : LimitsOf(setup.cores, arch);
      options.limits.row_block = std::min(options.limits.row_block, setup.row_block);
      options.launch.timeline = false;
      if (arch == Arch::k2002) options.launch.type = KernelType::kAivOnly;
      const auto result = problem.Run(chip.get(), options, &after);
      Judge(result.launch.report, false);
      double worst = 0;
      Judge(result.launch.report, problem.CountWrong(before, after, kind, &worst) != 0);
    }
  }
}

[[maybe_unused]] void RunVector() {
  auto chip = Simulator::Open("910B3").value();
  OperatorProblem problem({4144, {1104, 48}, {8, 16, 32, 64}, {}, DType::kF16}, 7);
  const auto before = problem.RandomStep(Slots(15, 4, 1));
  auto after = before;
  LaunchOptions launch;
  launch.timeline = false;
  const BaselineResult result = RunVectorBaseline(chip.get(), problem, false, launch, &after);
  double worst = 0;
  Judge(result.report, false);
  Judge(result.report, problem.CountWrong(before, after, YKind::kFused, &worst) != 0);
}

[[maybe_unused]] void RunBase() {
  auto chip = Simulator::Open("910B3").value();
  for (const auto& [rows, k, n] :
       {std::tuple{3, 400, 304}, std::tuple{150, 656, 448}, std::tuple{33, 144, 512}}) {
    std::mt19937 random(5);
    std::uniform_real_distribution<float> uniform(-1, 1);
    const auto fill = [&](int count) {
      AlignedVector<uint16_t> out(static_cast<size_t>(count));
      for (uint16_t& v : out) v = F32ToF16(uniform(random));
      return out;
    };
    AlignedVector<uint16_t> x = fill(rows * k);
    AlignedVector<uint16_t> w = fill(n * k);
    AlignedVector<float> y(static_cast<size_t>(rows * n), std::nanf(""));
    AlignedVector<uint32_t> program(kBaseWords, 0);
    const int cores = 2;
    program[kBaseCores] = cores;
    program[kBaseRows] = static_cast<uint32_t>(rows);
    program[kBaseInner] = static_cast<uint32_t>(k);
    program[kBaseColumns] = static_cast<uint32_t>(n);
    chip->RemoveAllGm();
    chip->AddGm("x", x.data(), static_cast<int64_t>(x.size() * 2));
    chip->AddGm("w", w.data(), static_cast<int64_t>(w.size() * 2));
    chip->AddGm("y", y.data(), static_cast<int64_t>(y.size() * 4));
    chip->AddGm("program", program.data(), static_cast<int64_t>(program.size() * 4));
    LaunchOptions launch;
    launch.blocks = cores;
    launch.timeline = false;
    const auto bytes = [](auto* v) { return reinterpret_cast<uint8_t*>(v->data()); };
    const LaunchResult result = chip->Launch(
        launch, [&] { base_linear_f16(bytes(&x), bytes(&w), bytes(&y), bytes(&program)); });
    bool wrong = false;
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < n; ++column) {
        double sum = 0;
        for (int i = 0; i < k; ++i) {
          const int panel = column / 128 * 128;
          const int width = std::min(128, n - panel);
          const int at = panel * k + i / 16 * width * 16 + (column - panel) / 16 * 256 +
                         (column - panel) % 16 * 16 + i % 16;
          sum += double{F16ToF32(x[static_cast<size_t>(row * k + i)])} *
                 double{F16ToF32(w[static_cast<size_t>(at)])};
        }
        if (!(std::fabs(sum - double{y[static_cast<size_t>(row * n + column)]}) < 1e-3)) {
          wrong = true;
        }
      }
    }
    Judge(result.report, wrong);
  }
}

}  // namespace
}  // namespace lorica::ascend

int main(int argc, char** argv) {
  lorica_mutant = argc > 1 ? std::atoi(argv[1]) : 0;
  if (argc > 3) {
    lorica_event = argv[2];
    lorica_event_id = std::atoi(argv[3]);
  }
#if defined(LORICA_KERNEL_lora_linear)
  lorica::ascend::RunOperator("910B3", lorica::ascend::Arch::k2201);
#elif defined(LORICA_KERNEL_lora_linear_310)
  lorica::ascend::RunOperator("310P3", lorica::ascend::Arch::k2002);
#elif defined(LORICA_KERNEL_vector_baseline)
  lorica::ascend::RunVector();
#else
  lorica::ascend::RunBase();
#endif
  std::puts(lorica_event_id >= 0 && !lorica_event_used ? "unused" : "survived");
  return 0;
}
