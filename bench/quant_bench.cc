#include "bench/quant_bench.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "bench/bench_weights.h"
#include "bench/floor.h"
#include "bench/report.h"
#include "lorica/base/machine_context.h"
#include "lorica/kernels/open_backend.h"

namespace lorica::bench {
namespace {

constexpr int64_t kWidth = 4096;
constexpr int64_t kMostRows = 64;
constexpr int64_t kRows[] = {1, 2, 4, 8, 16, 32, 64};
// Together beyond any cache here, so that each call reads memory.
constexpr int kCopies = 3;
constexpr int kQuantCopies = 8;

DType StorageOf(std::string_view weights) {
  if (weights == "int8") return DType::kI8;
  if (weights == "q8_0") return DType::kQ8_0;
  if (weights == "q4_k") return DType::kQ4_K;
  if (weights == "q6_k") return DType::kQ6_K;
  return weights == "q4_0" ? DType::kQ4_0 : DType::kQ4_1;
}

class World {
 public:
  explicit World(MachineContext* context) : context_(context) {}

  Status Prepare(DType storage) {
    LORICA_ASSIGN_OR_RETURN(backend_, kernels::OpenCpuBackend());
    LORICA_RETURN_IF_ERROR(Pack(DType::kBF16, kCopies, &plain_));
    LORICA_RETURN_IF_ERROR(Pack(storage, kQuantCopies, &quant_));
    x_.resize(kMostRows * kWidth);
    const RandomRows rows(kMostRows, kWidth, 9);
    for (int64_t row = 0; row < kMostRows; ++row) {
      rows.ReadRow(row, {x_.data() + row * kWidth, kWidth});
    }
    y_.resize(kMostRows * kWidth);
    packed_.resize(static_cast<size_t>(backend_->PackedInputFloats(kMostRows, kWidth)));
    return OkStatus();
  }
  std::string_view backend() const { return backend_->name(); }
  double quant_bytes() const { return bytes_per_weight() * kWidth * kWidth; }
  double bytes_per_weight() const {
    const kernels::Weight& weight = quant_.front();
    return static_cast<double>(weight.data.bytes() + weight.scales.bytes()) / (kWidth * kWidth);
  }

  double TimePlain(int64_t rows, kernels::ActivationType type) { return Time(plain_, rows, type); }
  double TimeQuant(int64_t rows) { return Time(quant_, rows, kernels::ActivationType::kF32); }

 private:
  Status Pack(DType storage, int copies, std::vector<kernels::Weight>* out) {
    for (int copy = 0; copy < copies; ++copy) {
      const RandomRows rows(kWidth, kWidth, static_cast<uint32_t>(copy) + 1);
      LORICA_ASSIGN_OR_RETURN(kernels::Weight weight,
                              backend_->PackWeight(rows, storage, context_));
      out->push_back(std::move(weight));
    }
    return OkStatus();
  }
  double Time(const std::vector<kernels::Weight>& weights, int64_t rows,
              kernels::ActivationType type) {
    kernels::LinearPart part;
    part.weight = &weights[next_++ % weights.size()];
    part.y = y_.data();
    part.y_stride = kWidth;
    kernels::LinearParams params;
    params.x = x_.data();
    params.rows = rows;
    params.activation_type = type;
    params.x_stride = kWidth;
    params.k = kWidth;
    params.parts = {&part, 1};
    params.packed_x = packed_.data();
    return Seconds(context_->pool.threads(), [&] {
      context_->pool.Run([&](const TeamMember& member) { backend_->LoraLinear(params, member); });
    });
  }

  MachineContext* context_;
  std::unique_ptr<kernels::Backend> backend_;
  std::vector<kernels::Weight> plain_, quant_;
  std::vector<float> x_, y_, packed_;
  size_t next_ = 0;
};

void TimeRows(int64_t rows, const BenchOptions& options, World* world, Floor* floor, Report* report,
              std::FILE* out) {
  std::vector<double> f32, bf16, quant;
  floor->Clear();
  for (int round = 0; round <= options.rounds; ++round) {
    floor->Sample();
    const double a = world->TimePlain(rows, kernels::ActivationType::kF32);
    const double b = world->TimePlain(rows, kernels::ActivationType::kBf16);
    const double c = world->TimeQuant(rows);
    if (round == 0) continue;  // warms up
    f32.push_back(a);
    bf16.push_back(b);
    quant.push_back(c);
  }
  const std::vector<double>& best = Summarize(f32).median < Summarize(bf16).median ? f32 : bf16;
  std::vector<double> ratios;
  for (size_t i = 0; i < best.size(); ++i) ratios.push_back(best[i] / quant[i]);
  const Quartiles ratio = Summarize(ratios);
  double least = world->quant_bytes() / floor->ReadRate();
  if (floor->ByteRate() > 0.0) {
    const double operations = 2.0 * kWidth * kWidth * static_cast<double>(rows);
    least = std::max(least, operations / floor->ByteRate());
  }
  const Quartiles ours = Summarize(quant);
  std::fprintf(out, "%4lld %9.3f %9.3f %9.3f %9.3f %6.0f%% %9.2f [%.2f %.2f]\n",
               static_cast<long long>(rows), Summarize(f32).median * 1e3,
               Summarize(bf16).median * 1e3, least * 1e3, ours.median * 1e3,
               100.0 * least / ours.median, ratio.median, ratio.first, ratio.third);
  report->AddTimes(options.weights, static_cast<double>(rows), least, ours);
  report->Add({options.weights, static_cast<double>(rows), "faster than bf16", "x", ratio});
}

}  // namespace

int RunQuantBench(const BenchOptions& options, std::FILE* out) {
  MachineContext context(ThreadsOf(options));
  World world(&context);
  const Status status = world.Prepare(StorageOf(options.weights));
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 1;
  }
  PrintMachine(context.pool.threads(), world.backend(), out);
  std::fprintf(out,
               "y = x * W^T, W 4096 x 4096; %s: %.3f bytes a weight; all timed in turn\n"
               "   M  bf16: x f32, x bf16 ms; %s: floor ms (of reading, or of products "
               "of bytes), ms, share, times faster than the better [quartiles]\n",
               options.weights.c_str(), world.bytes_per_weight(), options.weights.c_str());
  Result<Floor> floor = Floor::Create(&context.pool, world.backend());
  if (!floor.ok()) {
    std::fprintf(stderr, "%s\n", floor.status().message().c_str());
    return 1;
  }
  Report report(MachineLine(context.pool.threads(), world.backend()), "quant");
  for (const int64_t rows : kRows) TimeRows(rows, options, &world, &*floor, &report, out);
  return WriteReport(report, options.csv);
}

}  // namespace lorica::bench
