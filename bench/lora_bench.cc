#include "bench/lora_bench.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "bench/bench_weights.h"
#include "bench/floor.h"
#include "bench/openblas.h"
#include "bench/report.h"
#include "lorica/base/machine_context.h"
#include "lorica/kernels/open_backend.h"

namespace lorica::bench {
namespace {

constexpr int64_t kWidth = 4096;
constexpr int kCopies = 3;
constexpr int32_t kAdapters = 20;
constexpr int64_t kTokens = 32;  // the first twelve adapters have two, the others one
constexpr int32_t kRanks[] = {8, 16, 32, 64};

int32_t RankOf(int32_t adapter) { return kRanks[adapter % 4]; }

struct Factors {
  std::vector<float> a;  // [rank, K], every value a bf16
  std::vector<float> b;  // [N, rank]
};

// A tenant's factors are bf16 in the file, f32 for the opponent.
std::vector<std::byte> AsBf16(const std::vector<float>& values) {
  std::vector<std::byte> out(values.size() * 2);
  auto* bits = reinterpret_cast<uint16_t*>(out.data());
  for (size_t i = 0; i < values.size(); ++i) bits[i] = F32ToBf16(values[i]);
  return out;
}

class World {
 public:
  explicit World(int threads) : context_(threads), table_(lora::SiteSpace{1}, kAdapters) {}

  Status Prepare() {
    LORICA_ASSIGN_OR_RETURN(backend_, kernels::OpenCpuBackend());
    for (uint32_t copy = 0; copy < kCopies; ++copy) {
      const RandomRows rows(kWidth, kWidth, copy + 1);
      LORICA_ASSIGN_OR_RETURN(kernels::Weight weight,
                              backend_->PackWeight(rows, DType::kBF16, &context_));
      weights_.push_back(std::move(weight));
    }
    x_.resize(kTokens * kWidth);
    for (int64_t row = 0; row < kTokens; ++row) {
      RandomRows(kTokens, kWidth, 9).ReadRow(row, {x_.data() + row * kWidth, kWidth});
    }
    y_.resize(kTokens * kWidth);
    packed_.resize(static_cast<size_t>(backend_->PackedInputFloats(kTokens, kWidth)));
    LORICA_ASSIGN_OR_RETURN(arena_,
                            Buffer::Allocate(int64_t{16} << 20, MemoryTag::kOther, nullptr));
    for (int32_t adapter = 0; adapter < kAdapters; ++adapter) {
      LORICA_RETURN_IF_ERROR(AddAdapter(adapter));
    }
    PlanStep();
    return OkStatus();
  }

  MachineContext& context() { return context_; }
  const kernels::Backend& backend() const { return *backend_; }
  int64_t lora_bytes() const { return lora_bytes_; }

  void SetActivations(kernels::ActivationType type) { activation_type_ = type; }
  kernels::ActivationType activation_type() const { return activation_type_; }
  double TimeOurs(int copy, bool with_lora) {
    kernels::LinearPart part;
    part.weight = &weights_[static_cast<size_t>(copy)];
    part.site = call_.site[0];
    part.y = y_.data();
    part.y_stride = kWidth;
    kernels::LinearParams params;
    params.x = x_.data();
    params.rows = kTokens;
    params.x_stride = kWidth;
    params.k = kWidth;
    params.activation_type = activation_type_;
    params.parts = {&part, 1};
    params.packed_x = packed_.data();
    if (with_lora) {
      params.plan = &plan_;
      params.segments = &segments_;
      params.table = &table_;
      params.s_scratch = scratch_.data();
      params.trace = &context_.trace;
    }
    return Seconds(context_.pool.threads(), [&] {
      context_.pool.Run([&](const TeamMember& member) { backend_->LoraLinear(params, member); });
    });
  }

  enum class Opponent { kSgemmPerToken, kSgemvPerToken, kSgemmPerAdapter };
  double TimeOpenBlas(const OpenBlas& blas, Opponent opponent) {
    return Seconds(context_.pool.threads(), [&] {
      for (const lora::Segment& segment : segments_.segments()) {
        const int64_t rows = segment.size();
        const int64_t step = opponent == Opponent::kSgemmPerAdapter ? rows : 1;
        for (int64_t row = 0; row < rows; row += step) {
          Pair(blas, segment.slot.index, segment.begin + row, step,
               opponent == Opponent::kSgemvPerToken);
        }
      }
    });
  }

 private:
  Status AddAdapter(int32_t adapter) {
    const int32_t rank = RankOf(adapter);
    Factors f;
    f.a.resize(static_cast<size_t>(rank * kWidth));
    f.b.resize(static_cast<size_t>(rank * kWidth));
    RandomRows(1, rank * kWidth, 100 + static_cast<uint32_t>(adapter)).ReadRow(0, f.a);
    RandomRows(1, rank * kWidth, 200 + static_cast<uint32_t>(adapter)).ReadRow(0, f.b);
    const std::vector<std::byte> a = AsBf16(f.a);
    const std::vector<std::byte> b = AsBf16(f.b);
    lora::SiteFactors factors;
    factors.site = lora::SiteSpace{1}.Linear(0, lora::Projection::kO);
    factors.rank = rank;
    factors.shape = {kWidth, kWidth};
    factors.a = {a.data(), DType::kBF16};
    factors.b = {b.data(), DType::kBF16};
    const lora::TilePacker& packer = backend_->tile_packer();
    lora::WeightTable::SiteTiles site{factors.site, {}};
    for (int32_t begin = 0; begin < rank; begin += packer.rank_quantum()) {
      const int64_t bytes = packer.TileBytes(lora::TileShapeOf(factors));
      std::byte* tile = arena_.data() + lora_bytes_;
      packer.PackTile(factors, begin, tile);
      lora_bytes_ += bytes;
      lora::TileRef ref;
      ref.address = tile;
      ref.dtype = DType::kBF16;
      site.tiles.push_back(ref);
    }
    table_.Install(lora::SlotId{adapter}, {site});
    factors_.push_back(std::move(f));
    return OkStatus();
  }

  void PlanStep() {
    std::vector<lora::SlotId> slots;
    for (int32_t adapter = 0; adapter < kAdapters; ++adapter) {
      const int tokens = adapter < kTokens - kAdapters ? 2 : 1;
      for (int i = 0; i < tokens; ++i) slots.push_back(lora::SlotId{adapter});
    }
    segments_.Build(slots);
    call_.call = lora::CallKind::kO;
    call_.parts = 1;
    call_.site[0] = lora::SiteSpace{1}.Linear(0, lora::Projection::kO);
    call_.shape[0] = {kWidth, kWidth};
    lora::BuildPlan(call_, segments_, table_, backend_->plan_limits(context_.pool.threads()),
                    &plan_);
    scratch_.resize(static_cast<size_t>(plan_.s_floats));
  }

  void Pair(const OpenBlas& blas, int32_t adapter, int64_t row, int64_t rows, bool as_vector) {
    const Factors& f = factors_[static_cast<size_t>(adapter)];
    float s[kTokens * 64];
    OpenBlas::Product shrink;
    shrink.m = rows;
    shrink.n = RankOf(adapter);
    shrink.k = kWidth;
    shrink.a = x_.data() + row * kWidth;
    shrink.b = f.a.data();
    shrink.c = s;
    OpenBlas::Product expand;
    expand.m = rows;
    expand.n = kWidth;
    expand.k = RankOf(adapter);
    expand.a = s;
    expand.b = f.b.data();
    expand.beta = 1.0f;
    expand.c = y_.data() + row * kWidth;
    if (as_vector) {
      blas.MultiplyRow(shrink);
      blas.MultiplyRow(expand);
    } else {
      blas.Multiply(shrink);
      blas.Multiply(expand);
    }
  }

  MachineContext context_;
  std::unique_ptr<kernels::Backend> backend_;
  std::vector<kernels::Weight> weights_;
  lora::WeightTable table_;
  Buffer arena_;  // tiles one after another, as the pool keeps them
  std::vector<Factors> factors_;
  lora::SegmentTable segments_;
  lora::CallSites call_;
  lora::LoraPlan plan_;
  std::vector<float> x_, y_, packed_, scratch_;
  int64_t lora_bytes_ = 0;
  kernels::ActivationType activation_type_ = kernels::ActivationType::kF32;
};

void PrintOpponents(World* world, const BenchOptions& options, double added, Report* report,
                    std::FILE* out) {
  const Result<OpenBlas> blas = OpenBlas::Load(world->context().pool.threads());
  if (!blas.ok()) {
    std::fprintf(out, "no opponent: %s\n", blas.status().message().c_str());
    return;
  }
  std::fprintf(out, "the low-rank work by %s, f32 factors:\n", blas->version().c_str());
  struct Named {
    const char* name;
    World::Opponent opponent;
  };
  double a_request = 0.0;  // the better of the two
  for (const Named& entry : {Named{"sgemm pair a request", World::Opponent::kSgemmPerToken},
                             Named{"sgemv pair a request", World::Opponent::kSgemvPerToken},
                             Named{"sgemm pair an adapter", World::Opponent::kSgemmPerAdapter}}) {
    std::vector<double> times;
    for (int round = 0; round < options.rounds; ++round) {
      world->TimeOurs(round % kCopies, false);  // factors come from memory again
      times.push_back(world->TimeOpenBlas(*blas, entry.opponent));
    }
    const Quartiles theirs = Summarize(times);
    std::fprintf(out, "  %-22s %.3f ms best, %.3f median: %.1f x our added time\n", entry.name,
                 theirs.best * 1e3, theirs.median * 1e3, theirs.median / added);
    report->Add(
        {entry.name,
         static_cast<double>(kTokens),
         "to our added time",
         "x",
         {theirs.best / added, theirs.first / added, theirs.median / added, theirs.third / added}});
    if (entry.opponent == World::Opponent::kSgemmPerAdapter) continue;
    a_request = a_request == 0.0 ? theirs.median : std::min(a_request, theirs.median);
  }
  std::fprintf(out, "  the better pair a request: %.1f x our added time\n", a_request / added);
}

// Base alone and base with LoRA in turn; the median of what LoRA adds, in seconds.
double PrintAdded(World* world, const BenchOptions& options, Floor* floor, Report* report,
                  std::FILE* out) {
  std::vector<double> base, with_lora, added;
  floor->Clear();
  world->TimeOurs(0, false);
  world->TimeOurs(1, true);
  world->context().trace.Reset();
  for (int round = 0; round < 2 * options.rounds; ++round) {
    floor->Sample();
    base.push_back(world->TimeOurs((2 * round) % kCopies, false));
    with_lora.push_back(world->TimeOurs((2 * round + 1) % kCopies, true));
    added.push_back(with_lora.back() - base.back());
  }
  const Quartiles b = Summarize(base);
  const Quartiles l = Summarize(with_lora);
  const Quartiles d = Summarize(added);
  const double bound = static_cast<double>(world->lora_bytes()) / floor->ReadRate();
  std::fprintf(out,
               "32 tokens over 20 adapters (ranks 8, 16, 32, 64), bf16 4096 x 4096, %.2f MB of "
               "factors\n"
               "  base alone   %.3f ms best, %.3f median [%.3f %.3f]\n"
               "  with LoRA    %.3f ms best, %.3f median [%.3f %.3f]\n"
               "  added        %.1f %% by best, %.1f %% by median of differences [%.1f %.1f]\n"
               "  added time / (bytes / read rate %.1f GB/s) = %.2f\n",
               static_cast<double>(world->lora_bytes()) / 1e6, b.best * 1e3, b.median * 1e3,
               b.first * 1e3, b.third * 1e3, l.best * 1e3, l.median * 1e3, l.first * 1e3,
               l.third * 1e3, 100 * (l.best / b.best - 1), 100 * d.median / b.median,
               100 * d.first / b.median, 100 * d.third / b.median, floor->ReadRate() / 1e9,
               d.median / bound);
  const auto milliseconds = [&](Zone zone) {
    const Trace::Counter& counter = world->context().trace.counter(zone);
    return static_cast<double>(counter.nanoseconds) / static_cast<double>(counter.calls) / 1e6;
  };
  std::fprintf(out, "  by the trace: shrink %.3f ms, expand %.3f ms (means)\n",
               milliseconds(Zone::kLoraShrink), milliseconds(Zone::kLoraExpand));
  const std::string series =
      world->activation_type() == kernels::ActivationType::kF32 ? "f32" : "bf16 dot";
  const auto share_of = [&](const char* name, const char* unit, double whole) {
    report->Add({series,
                 static_cast<double>(kTokens),
                 name,
                 unit,
                 {d.best / whole, d.first / whole, d.median / whole, d.third / whole}});
  };
  share_of("added to the base product", "%", b.median / 100.0);
  share_of("added to bytes / read rate", "x", bound);
  return std::max(d.median, 1e-9);
}

}  // namespace

int RunLoraBench(const BenchOptions& options, std::FILE* out) {
  World world(ThreadsOf(options));
  const Status status = world.Prepare();
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 1;
  }
  ThreadPool* pool = &world.context().pool;
  Result<Floor> floor = Floor::Create(pool, world.backend().name());
  if (!floor.ok()) {
    std::fprintf(stderr, "%s\n", floor.status().message().c_str());
    return 1;
  }
  PrintMachine(pool->threads(), world.backend().name(), out);
  Report report(MachineLine(pool->threads(), world.backend().name()), "lora");
  const double added = PrintAdded(&world, options, &*floor, &report, out);
  if (floor->has_dot()) {
    std::fprintf(out, "the same by the bf16 dot on x rounded to bf16\n");
    world.SetActivations(kernels::ActivationType::kBf16);
    PrintAdded(&world, options, &*floor, &report, out);
    world.SetActivations(kernels::ActivationType::kF32);
  }
  PrintOpponents(&world, options, added, &report, out);
  return WriteReport(report, options.csv);
}

}  // namespace lorica::bench
