// Prints the modelled cycles of the operator and of its opponents, with the byte floor of each case
// and the sensitivity to the model's doubtful constants. Cycles of a model, never a measurement.
//
//   ascend_cycle_table                 the table
//   ascend_cycle_table --floor         decode beside the byte floor alone, in seconds
//   ascend_cycle_table --sensitivity   ratios with each doubtful constant halved and doubled
//   ascend_cycle_table --grouping      adapters of equal rank side by side, and each for itself
//   ascend_cycle_table --base          the base product beside the operator, and how long that ran
//   ascend_cycle_table --trace FILE [CASE [cold|warm [split]]]   a case's instructions, for
//   Perfetto
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>

#include "kernel_operator.h"
#include "lorica/kernels/ascend/base_linear.h"
#include "lorica/kernels/ascend/baseline_fixture.h"

namespace lorica::ascend {
namespace {

using lora::SlotId;

struct Case {
  const char* name;
  int64_t k;
  std::vector<int64_t> n;
  std::vector<int32_t> ranks;
  std::vector<SlotId> slots;
};

std::vector<SlotId> Spread(int32_t tokens, int32_t adapters) {
  std::vector<SlotId> slots;
  for (int32_t t = 0; t < tokens; ++t) slots.push_back(SlotId{t * adapters / tokens});
  return slots;
}

std::vector<Case> Cases() {
  const std::vector<int32_t> sixteen(16, 16);
  std::vector<int32_t> mixed;
  const int32_t ranks[] = {8, 16, 32, 64};
  for (int32_t i = 0; i < 20; ++i) mixed.push_back(ranks[i % 4]);
  return {
      {"16 tokens, 16 adapters r16, 4096x4096", 4096, {4096}, sixteen, Spread(16, 16)},
      {"16 tokens, 1 adapter r16, 4096x4096", 4096, {4096}, {16}, Spread(16, 1)},
      {"32 tokens, 20 adapters r8-64, 4096x4096", 4096, {4096}, mixed, Spread(32, 20)},
      {"16 tokens, 16 adapters r16, qkv 8B", 4096, {4096, 1024, 1024}, sixteen, Spread(16, 16)},
      {"16 tokens, 16 adapters r16, gate_up 8B", 4096, {14336, 14336}, sixteen, Spread(16, 16)},
      {"16 tokens, 16 adapters r16, down 8B", 14336, {4096}, sixteen, Spread(16, 16)},
      {"64 tokens, 64 adapters r16, 4096x4096",
       4096,
       {4096},
       std::vector<int32_t>(64, 16),
       Spread(64, 64)},
      {"prompt of 1024 tokens r16, 4096x4096", 4096, {4096}, {16}, Spread(1024, 1)},
  };
}

// Cycles below which no schedule can go: unique bytes of A, B, x and y over the rates. Cold, A and
// B come from memory; x and y, and everything when warm, over the cores' own paths.
double FloorOf(const Case& c, const SocSpec& soc, bool in_l2) {
  std::set<int32_t> active;
  double rows = 0;
  for (const SlotId slot : c.slots) {
    if (slot != lora::kBaseModel) {
      active.insert(slot.index);
      ++rows;
    }
  }
  double weights = 0, read = rows * static_cast<double>(c.k) * 2, written = 0;
  for (const int64_t n : c.n) {
    for (const int32_t slot : active) {
      const int32_t rank = (c.ranks[static_cast<size_t>(slot)] + 15) / 16 * 16;
      weights += rank * static_cast<double>(c.k + n) * 2;
    }
    read += rows * static_cast<double>(n) * 2;
    written += rows * static_cast<double>(n) * 2;
  }
  const double own = (weights + read) / (soc.gm_to_l1 * soc.cube_cores);
  const double out = written / (soc.l0c_to_gm * soc.cube_cores);
  const double memory = in_l2 ? 0 : weights / soc.memory_rate;
  return std::max({own, out, memory, (weights + read) / soc.l2_rate});
}

// What the busiest core of this very plan reads, over its path: the shrink repeated by each core
// that shares an adapter included.
double PlanFloorOf(const Timeline& timeline, const SocSpec& soc) {
  std::vector<double> read(timeline.cores.size(), 0);
  for (const TraceEvent& event : timeline.events) {
    if (event.pipe == PIPE_MTE2) {
      read[static_cast<size_t>(event.core)] += static_cast<double>(event.bytes);
    }
  }
  double most = 0;
  for (const double bytes : read) most = std::max(most, bytes);
  return most / soc.gm_to_l1;
}

struct Row {
  double whole = 0, atomic = 0, split = 0, vector = 0, one = 0, floor = 0, plan_floor = 0;
  Timeline timeline;        // of whole items
  Timeline split_timeline;  // of split ones
};

// The operator alone.
Timeline RunForm(Simulator* chip, const Case& c, bool in_l2, const LaunchOptions& launch,
                 bool split) {
  OperatorProblem problem({c.k, c.n, c.ranks, {}, DType::kF16, Arch::k2201, split}, 1);
  auto step = problem.RandomStep(c.slots);
  OperatorProblem::RunOptions options;
  options.in_l2 = in_l2;
  options.launch = launch;
  options.launch.trace = true;
  const int32_t cores = chip->soc().cube_cores;
  options.limits = split ? SplitLimitsOf(cores) : LimitsOf(cores);
  auto run = problem.Run(chip, options, &step);
  LORICA_CHECK(run.launch.report.ok());
  return std::move(run.launch.timeline);
}

Timeline RunSplit(Simulator* chip, const Case& c, bool in_l2, const LaunchOptions& launch) {
  return RunForm(chip, c, in_l2, launch, true);
}
Timeline RunWhole(Simulator* chip, const Case& c, bool in_l2, const LaunchOptions& launch) {
  return RunForm(chip, c, in_l2, launch, false);
}

Row RunCase(Simulator* chip, const Case& c, bool in_l2, const LaunchOptions& launch,
            bool everything) {
  OperatorProblem problem({c.k, c.n, c.ranks, {}, DType::kF16, Arch::k2201, false}, 1);
  const auto before = problem.RandomStep(c.slots);
  OperatorProblem::RunOptions options;
  options.in_l2 = in_l2;
  options.launch = launch;
  options.launch.trace = true;
  options.limits = LimitsOf(chip->soc().cube_cores);
  Row row;
  auto step = before;
  auto run = problem.Run(chip, options, &step);
  LORICA_CHECK(run.launch.report.ok());
  row.timeline = std::move(run.launch.timeline);
  row.whole = row.timeline.cycles;
  row.split_timeline = RunSplit(chip, c, in_l2, launch);
  row.split = row.split_timeline.cycles;
  row.floor = FloorOf(c, chip->soc(), in_l2);
  row.plan_floor = PlanFloorOf(row.timeline, chip->soc());
  options.launch.trace = false;
  if (everything) {
    step = before;
    options.y = YKind::kAtomic;
    row.atomic = problem.Run(chip, options, &step).launch.timeline.cycles;
    options.y = YKind::kFused;
    step = before;
    row.one = RunOneAtATime(chip, &problem, options, &step).cycles;
  }
  step = before;
  row.vector = RunVectorBaseline(chip, problem, in_l2, launch, &step).cycles;
  return row;
}

void PrintTable(Simulator* chip) {
  std::printf("modelled cycles on %s; not a measurement\n\n",
              std::string(chip->soc().name).c_str());
  std::printf(
      "| case | adapters | floor | split | / floor | whole | / floor | whole, atomic y | whole's "
      "own "
      "reads | vector | / split | / whole | one at a time | / split |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Case& c : Cases()) {
    for (const bool in_l2 : {false, true}) {
      const Row row = RunCase(chip, c, in_l2, {}, true);
      std::printf(
          "| %s | %s | %.0f | %.0f | %.2f | %.0f | %.2f | %.0f | %.0f | %.0f | %.2f | %.2f | %.0f "
          "| "
          "%.2f |\n",
          c.name, in_l2 ? "in L2" : "cold", row.floor, row.split, row.split / row.floor, row.whole,
          row.whole / row.floor, row.atomic, row.plan_floor, row.vector, row.vector / row.split,
          row.vector / row.whole, row.one, row.one / row.split);
      std::fflush(stdout);
    }
  }
  std::printf("\nbusy cycles of the slowest core, split items\n\n| case | adapters | all |");
  for (int p = 0; p < kPipes; ++p) std::printf(" %s |", PipeName(p));
  std::printf(" bytes from memory | bytes of GM read | bytes written |\n");
  std::printf("|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Case& c : Cases()) {
    for (const bool in_l2 : {false, true}) {
      const Timeline t = RunSplit(chip, c, in_l2, {});
      std::printf("| %s | %s | %.0f |", c.name, in_l2 ? "in L2" : "cold", t.cycles);
      for (const double busy : t.busy) std::printf(" %.0f |", busy);
      std::printf(" %lld | %lld | %lld |\n", static_cast<long long>(t.memory_bytes),
                  static_cast<long long>(t.l2_bytes), static_cast<long long>(t.written_bytes));
    }
  }
}

void PrintFloor(Simulator* chip) {
  std::printf("| case | adapters | floor | split | / floor | whole | / floor |\n");
  std::printf("|---|---|---|---|---|---|---|\n");
  for (const Case& c : Cases()) {
    for (const bool in_l2 : {false, true}) {
      const double floor = FloorOf(c, chip->soc(), in_l2);
      const double split = RunSplit(chip, c, in_l2, {}).cycles;
      const double whole = RunWhole(chip, c, in_l2, {}).cycles;
      std::printf("| %s | %s | %.0f | %.0f | %.2f | %.0f | %.2f |\n", c.name,
                  in_l2 ? "in L2" : "cold", floor, split, split / floor, whole, whole / floor);
      std::fflush(stdout);
    }
  }
}

// Segments of equal rank side by side on one core, and each for itself.
void PrintGrouping(Simulator* chip) {
  std::printf("\n| case | adapters | grouped | each for itself |\n|---|---|---|---|\n");
  std::vector<Case> cases = {{"64 tokens, 64 adapters r16, 4096x4096",
                              4096,
                              {4096},
                              std::vector<int32_t>(64, 16),
                              Spread(64, 64)},
                             {"60 tokens, 60 adapters r8, 4096x4096",
                              4096,
                              {4096},
                              std::vector<int32_t>(60, 8),
                              Spread(60, 60)},
                             {"120 tokens, 40 adapters r16, 4096x1024",
                              4096,
                              {1024},
                              std::vector<int32_t>(40, 16),
                              Spread(120, 40)},
                             {"240 tokens, 40 adapters r16, 4096x1024",
                              4096,
                              {1024},
                              std::vector<int32_t>(40, 16),
                              Spread(240, 40)}};
  for (const Case& c : cases) {
    for (const bool in_l2 : {false, true}) {
      OperatorProblem problem({c.k, c.n, c.ranks, {}, DType::kF16, Arch::k2201, false}, 1);
      const auto before = problem.RandomStep(c.slots);
      OperatorProblem::RunOptions options;
      options.in_l2 = in_l2;
      options.limits = LimitsOf(chip->soc().cube_cores);
      auto step = before;
      const double grouped = problem.Run(chip, options, &step).launch.timeline.cycles;
      options.limits.local_bytes = 16 * 16 * 4;  // room for one tile only
      step = before;
      const double single = problem.Run(chip, options, &step).launch.timeline.cycles;
      std::printf("| %s | %s | %.0f | %.0f |\n", c.name, in_l2 ? "in L2" : "cold", grouped, single);
    }
  }
}

// The base product of 32 tokens, 4096 x 4096, W from memory, as a launch of its own and in one
// launch with the operator: the cores then meet between the two on the way out only, so that what
// the operator reads and shrinks goes on beside the other cores' last tiles.
void PrintBase(Simulator* chip) {
  const Case c = Cases()[2];
  const auto start = std::chrono::steady_clock::now();
  AlignedVector<uint16_t> x(32 * 4096, F32ToF16(0.5f));
  AlignedVector<uint16_t> w(4096 * 4096, F32ToF16(0.25f));
  AlignedVector<float> y(32 * 4096, 0.0f);
  AlignedVector<uint32_t> program(kBaseWords, 0);
  program[kBaseCores] = static_cast<uint32_t>(chip->soc().cube_cores);
  program[kBaseRows] = 32;
  program[kBaseInner] = 4096;
  program[kBaseColumns] = 4096;
  const auto bytes = [](auto* v) { return reinterpret_cast<uint8_t*>(v->data()); };
  const auto add = [&](const char* name, auto* v) {
    chip->AddGm(name, v->data(), static_cast<int64_t>(v->size() * sizeof((*v)[0])));
  };
  chip->RemoveAllGm();
  add("x", &x);
  add("W", &w);
  add("y", &y);
  add("program", &program);
  LaunchOptions launch;
  launch.blocks = chip->soc().cube_cores;
  const LaunchResult base = chip->Launch(
      launch, [&] { base_linear_f16(bytes(&x), bytes(&w), bytes(&y), bytes(&program)); });
  LORICA_CHECK(base.report.ok());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("base %.0f cycles (floor of W from memory %.0f); simulated in %.1f s\n",
              base.timeline.cycles, 4096.0 * 4096 * 2 / chip->soc().memory_rate, seconds.count());
  OperatorProblem problem({c.k, c.n, c.ranks, {}, DType::kF16, Arch::k2201, true}, 1);
  const auto before = problem.RandomStep(c.slots);
  for (const bool in_l2 : {false, true}) {
    auto step = before;
    OperatorProblem::RunOptions options;
    options.in_l2 = in_l2;
    options.y = YKind::kF32;
    options.limits = SplitLimitsOf(chip->soc().cube_cores);
    const double beside = problem.Run(chip, options, &step).launch.timeline.cycles;
    options.before = [&](uint8_t* device_x, uint8_t* device_y) -> std::function<void()> {
      add("W", &w);
      add("base program", &program);
      return [&, device_x, device_y] {
        base_linear_f16(device_x, bytes(&w), device_y, bytes(&program));
        constexpr uint16_t kBaseDone = 8;
        AscendC::CrossCoreSetFlag<0, PIPE_FIX>(kBaseDone);
        AscendC::CrossCoreWaitFlag<0, PIPE_FIX>(kBaseDone);
      };
    };
    step = before;
    const LaunchResult fused = problem.Run(chip, options, &step).launch;
    if (!fused.report.ok()) std::fputs(fused.report.ToString().c_str(), stderr);
    LORICA_CHECK(fused.report.ok());
    std::printf("adapters %s: operator %.0f cycles, two launches %.0f, one launch %.0f\n",
                in_l2 ? "in L2" : "cold", beside, base.timeline.cycles + beside,
                fused.timeline.cycles);
  }
}

void PrintSensitivity(Simulator* chip) {
  struct Setting {
    const char* name;
    double LaunchOptions::*field;
  };
  const Setting settings[] = {{"memory latency", &LaunchOptions::memory_latency_scale},
                              {"L2 latency", &LaunchOptions::l2_latency_scale},
                              {"issue cost", &LaunchOptions::issue_cost_scale},
                              {"MTE2 rate", &LaunchOptions::mte2_rate_scale},
                              {"cross-core flag", &LaunchOptions::cross_flag_scale}};
  std::printf("| case | adapters | split | least | with | whole | least | with |\n");
  std::printf("|---|---|---|---|---|---|---|---|\n");
  for (const Case& c : Cases()) {
    if (c.slots.size() > 64) continue;
    for (const bool in_l2 : {false, true}) {
      struct Least {
        double plain = 0, ratio = 0;
        std::string with = "as they are";
      };
      const Row plain = RunCase(chip, c, in_l2, {}, false);
      Least split{plain.vector / plain.split, plain.vector / plain.split};
      Least whole{plain.vector / plain.whole, plain.vector / plain.whole};
      for (const Setting& setting : settings) {
        for (const double scale : {0.5, 2.0}) {
          LaunchOptions launch;
          launch.*setting.field = scale;
          const Row row = RunCase(chip, c, in_l2, launch, false);
          const auto take = [&](double ratio, Least* least) {
            if (ratio >= least->ratio) return;
            least->ratio = ratio;
            least->with = std::string(setting.name) + (scale < 1 ? " halved" : " doubled");
          };
          take(row.vector / row.split, &split);
          take(row.vector / row.whole, &whole);
        }
      }
      std::printf("| %s | %s | %.2f | %.2f | %s | %.2f | %.2f | %s |\n", c.name,
                  in_l2 ? "in L2" : "cold", split.plain, split.ratio, split.with.c_str(),
                  whole.plain, whole.ratio, whole.with.c_str());
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace lorica::ascend

int main(int argc, char** argv) {
  auto chip = lorica::ascend::Simulator::Open("910B3").value();
  if (argc > 2 && std::strcmp(argv[1], "--trace") == 0) {
    const size_t index = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 2;
    const bool warm = argc > 4 && std::strcmp(argv[4], "warm") == 0;
    const lorica::ascend::Case c = lorica::ascend::Cases().at(index);
    std::ofstream(argv[2])
        << (argc > 5 ? lorica::ascend::RunSplit(chip.get(), c, warm, {})
                     : lorica::ascend::RunCase(chip.get(), c, warm, {}, false).timeline)
               .ToTraceJson();
    return 0;
  }
  if (argc > 1 && std::strcmp(argv[1], "--floor") == 0) {
    lorica::ascend::PrintFloor(chip.get());
  } else if (argc > 1 && std::strcmp(argv[1], "--base") == 0) {
    lorica::ascend::PrintBase(chip.get());
  } else if (argc > 1 && std::strcmp(argv[1], "--grouping") == 0) {
    lorica::ascend::PrintGrouping(chip.get());
  } else if (argc > 1 && std::strcmp(argv[1], "--sensitivity") == 0) {
    lorica::ascend::PrintSensitivity(chip.get());
  } else {
    lorica::ascend::PrintTable(chip.get());
  }
  return 0;
}
