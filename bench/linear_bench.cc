#include "bench/linear_bench.h"

#include <algorithm>
#include <vector>

#include "bench/bench_weights.h"
#include "bench/floor.h"
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

double TimeCall(World* world, ThreadPool* pool, int64_t rows, int copy) {
  kernels::LinearPart part;
  part.weight = &world->weights[static_cast<size_t>(copy)];
  part.y = world->y.data();
  part.y_stride = kWidth;
  kernels::LinearParams params;
  params.x = world->x.data();
  params.rows = rows;
  params.x_stride = kWidth;
  params.k = kWidth;
  params.parts = {&part, 1};
  params.packed_x = world->packed.data();
  return Seconds([&] {
    pool->Run([&](const TeamMember& member) { world->backend->LoraLinear(params, member); });
  });
}

}  // namespace

int RunLinearBench(const BenchOptions& options, std::FILE* out) {
  MachineContext context(ThreadsOf(options));
  World world;
  const Status status = Prepare(&context, &world);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 1;
  }
  const std::string_view isa = world.backend->name().substr(4);  // after "cpu "
  Result<Floor> floor = Floor::Create(&context.pool, isa);
  if (!floor.ok()) {
    std::fprintf(stderr, "%s\n", floor.status().message().c_str());
    return 1;
  }
  PrintMachine(context.pool.threads(), world.backend->name(), out);
  std::fprintf(out,
               "y = x * W^T, W bf16 4096 x 4096; floor = max(bytes / read rate, flops / f32 FMA "
               "peak), both timed in turn with the calls\n"
               "%4s %9s %9s %9s %9s %9s %9s | %s\n",
               "M", "GB/s", "GFLOP/s", "floor ms", "best ms", "median", "quartiles",
               "share of the floor: best, median [quartiles]");
  for (const int64_t rows : {1, 2, 4, 6, 8, 12, 16, 32, 64}) {
    floor->Clear();
    std::vector<double> times;
    TimeCall(&world, &context.pool, rows, 0);
    for (int round = 0; round < options.rounds; ++round) {
      floor->Sample();
      times.push_back(TimeCall(&world, &context.pool, rows, (round + 1) % kCopies));
    }
    const double bytes = static_cast<double>(kWidth * kWidth) * 2;
    const double flops = static_cast<double>(kWidth * kWidth * rows) * 2;
    const double best = std::max(bytes / floor->ReadRate(), flops / floor->MultiplyRate());
    const Quartiles ours = Summarize(times);
    std::fprintf(out,
                 "%4lld %9.1f %9.1f %9.3f %9.3f %9.3f %4.2f-%4.2f | %3.0f %%, %3.0f %% [%.0f "
                 "%.0f]%s\n",
                 static_cast<long long>(rows), floor->ReadRate() / 1e9, floor->MultiplyRate() / 1e9,
                 best * 1e3, ours.best * 1e3, ours.median * 1e3, ours.first * 1e3, ours.third * 1e3,
                 100 * best / ours.best, 100 * best / ours.median, 100 * best / ours.third,
                 100 * best / ours.first,
                 bytes / floor->ReadRate() > flops / floor->MultiplyRate() ? " reads" : "");
  }
  return 0;
}

}  // namespace lorica::bench
