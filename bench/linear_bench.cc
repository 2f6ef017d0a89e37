#include "bench/linear_bench.h"

#include <algorithm>
#include <vector>

#include "bench/bench_weights.h"
#include "bench/floor.h"
#include "bench/quant_bench.h"
#include "bench/report.h"
#include "lorica/base/machine_context.h"
#include "lorica/kernels/open_backend.h"

namespace lorica::bench {
namespace {

constexpr int64_t kWidth = 4096;
constexpr int kCopies = 3;  // together beyond any cache here, so that each call reads memory
constexpr int64_t kMostRows = 64;

struct World {
  std::unique_ptr<kernels::Backend> backend;
  std::vector<kernels::Weight> weights;
  std::vector<float> x, y, packed;
};

Status Prepare(MachineContext* context, World* world) {
  LORICA_ASSIGN_OR_RETURN(world->backend, kernels::OpenCpuBackend());
  for (uint32_t copy = 0; copy < kCopies; ++copy) {
    const RandomRows rows(kWidth, kWidth, copy + 1);
    LORICA_ASSIGN_OR_RETURN(kernels::Weight weight,
                            world->backend->PackWeight(rows, DType::kBF16, context));
    world->weights.push_back(std::move(weight));
  }
  world->x.resize(kMostRows * kWidth);
  const RandomRows rows(kMostRows, kWidth, 9);
  for (int64_t row = 0; row < kMostRows; ++row) {
    rows.ReadRow(row, {world->x.data() + row * kWidth, kWidth});
  }
  world->y.resize(kMostRows * kWidth);
  world->packed.resize(static_cast<size_t>(world->backend->PackedInputFloats(kMostRows, kWidth)));
  return OkStatus();
}

struct Call {
  int64_t rows = 0;
  kernels::ActivationType type = kernels::ActivationType::kF32;
};

double TimeCall(World* world, ThreadPool* pool, const Call& call, int copy) {
  kernels::LinearPart part;
  part.weight = &world->weights[static_cast<size_t>(copy)];
  part.y = world->y.data();
  part.y_stride = kWidth;
  kernels::LinearParams params;
  params.x = world->x.data();
  params.rows = call.rows;
  params.activation_type = call.type;
  params.x_stride = kWidth;
  params.k = kWidth;
  params.parts = {&part, 1};
  params.packed_x = world->packed.data();
  return Seconds(pool->threads(), [&] {
    pool->Run([&](const TeamMember& member) { world->backend->LoraLinear(params, member); });
  });
}

void PrintShare(const Floor& floor, const Call& call, const std::vector<double>& times,
                Report* report, std::FILE* out) {
  const double bytes = static_cast<double>(kWidth * kWidth) * 2;
  const double flops = static_cast<double>(kWidth * kWidth * call.rows) * 2;
  const double reads = bytes / floor.ReadRate();
  const double best = std::max(reads, flops / floor.MultiplyRate(call.type));
  const Quartiles ours = Summarize(times);
  std::fprintf(out, " | %7.1f %8.3f%c %7.3f %7.3f  %3.0f %%, %3.0f %% [%3.0f %3.0f]",
               floor.MultiplyRate(call.type) / 1e9, best * 1e3, best == reads ? 'r' : ' ',
               ours.best * 1e3, ours.median * 1e3, 100 * best / ours.best, 100 * best / ours.median,
               100 * best / ours.third, 100 * best / ours.first);
  report->AddTimes(call.type == kernels::ActivationType::kF32 ? "f32" : "bf16 dot",
                   static_cast<double>(call.rows), best, ours);
}

}  // namespace

int RunLinearBench(const BenchOptions& options, std::FILE* out) {
  if (!options.weights.empty()) return RunQuantBench(options, out);
  MachineContext context(ThreadsOf(options));
  World world;
  const Status status = Prepare(&context, &world);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 1;
  }
  Result<Floor> floor = Floor::Create(&context.pool, world.backend->name());
  if (!floor.ok()) {
    std::fprintf(stderr, "%s\n", floor.status().message().c_str());
    return 1;
  }
  std::vector<kernels::ActivationType> types = {kernels::ActivationType::kF32};
  if (floor->has_dot()) types.push_back(kernels::ActivationType::kBf16);
  PrintMachine(context.pool.threads(), world.backend->name(), out);
  Report report(MachineLine(context.pool.threads(), world.backend->name()), "linear");
  std::fprintf(out,
               "y = x * W^T, W bf16 4096 x 4096; floor = max(bytes / read rate, flops / peak), "
               "r where reads bind; all timed in turn, %s\n"
               "columns: f32 multiply-add%s: peak GFLOP/s, floor ms, best, median, share of the "
               "floor by best, by median [quartiles]\n   M    GB/s\n",
               context.pool.threads() == 1 ? "by processor time" : "by wall time",
               floor->has_dot() ? " | bf16 dot on x rounded to bf16" : "");
  for (const int64_t rows : {1, 2, 3, 4, 5, 6, 8, 12, 14, 16, 28, 32, 64}) {
    floor->Clear();
    std::vector<std::vector<double>> times(types.size());
    int copy = 0;
    for (int round = 0; round <= options.rounds; ++round) {
      floor->Sample();
      for (size_t i = 0; i < types.size(); ++i) {
        const double seconds = TimeCall(&world, &context.pool, {rows, types[i]}, copy++ % kCopies);
        if (round > 0) times[i].push_back(seconds);  // the first warms up
      }
    }
    std::fprintf(out, "%4lld %7.1f", static_cast<long long>(rows), floor->ReadRate() / 1e9);
    for (size_t i = 0; i < types.size(); ++i) {
      PrintShare(*floor, {rows, types[i]}, times[i], &report, out);
    }
    std::fprintf(out, "\n");
  }
  return WriteReport(report, options.csv);
}

}  // namespace lorica::bench
