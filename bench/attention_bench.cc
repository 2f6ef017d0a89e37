#include "bench/attention_bench.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bench/floor.h"
#include "bench/report.h"
#include "lorica/base/buffer.h"
#include "lorica/kernels/open_backend.h"

namespace lorica::bench {
namespace {

using kernels::KvLayout;

struct Shape {
  const char* name;
  int32_t layers;
  int32_t heads;
  int32_t kv_heads;
  int32_t head_dim;
};
constexpr Shape kShapes[] = {{"1.2B", 16, 32, 8, 64}, {"SmolLM2", 30, 9, 3, 64}};

struct Company {
  int32_t sequences;
  int32_t context;
};
constexpr Company kCompanies[] = {{1, 8192}, {20, 256}};

// Sequences that decode one token each, in every layer of a model: what lies in its pages is the
// same everywhere, where it lies is not.
class Case {
 public:
  Case(const kernels::Backend* backend, ThreadPool* pool, const Shape& shape)
      : backend_(backend), pool_(pool), shape_(shape) {}

  Status Prepare(const Company& company, DType dtype) {
    layout_ = {.dtype = dtype,
               .layers = shape_.layers,
               .kv_heads = shape_.kv_heads,
               .head_dim = shape_.head_dim};
    const int32_t pages_each = company.context / kernels::kPageTokens;
    const int32_t pages = company.sequences * pages_each;
    page_ids_.resize(static_cast<size_t>(pages));
    std::iota(page_ids_.begin(), page_ids_.end(), 0);
    std::shuffle(page_ids_.begin(), page_ids_.end(), std::mt19937(7));
    for (int32_t i = 0; i < company.sequences; ++i) {
      sequences_.push_back({.row_begin = i,
                            .rows = 1,
                            .position_begin = company.context - 1,
                            .pages = page_ids_.data() + i * pages_each});
    }
    const int64_t width = int64_t{shape_.heads} * shape_.head_dim;
    q_ = RandomFloats(company.sequences * width);
    out_.resize(q_.size());
    scratch_floats_ = backend_->AttentionScratchFloats({.heads = shape_.heads,
                                                        .kv_heads = shape_.kv_heads,
                                                        .head_dim = shape_.head_dim,
                                                        .max_positions = company.context});
    scratch_.resize(static_cast<size_t>(scratch_floats_ * pool_->threads()));
    LORICA_ASSIGN_OR_RETURN(
        pages_, Buffer::Allocate(pages * layout_.PageBytes(), MemoryTag::kKvPages, nullptr));
    FillPages(pages);
    return OkStatus();
  }

  // All of K and V that one token meets.
  double Bytes() const {
    return static_cast<double>(page_ids_.size()) * static_cast<double>(layout_.PageBytes());
  }

  void Run() {
    kernels::AttentionParams p;
    p.q = q_.data();
    p.out = out_.data();
    p.q_stride = p.out_stride = int64_t{shape_.heads} * shape_.head_dim;
    p.heads = shape_.heads;
    p.scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim));
    p.layout = layout_;
    p.pages = pages_.data();
    p.sequences = sequences_;
    p.scratch = scratch_.data();
    p.scratch_floats = scratch_floats_;
    pool_->Run([&](const TeamMember& member) {
      kernels::AttentionParams mine = p;
      for (mine.layer = 0; mine.layer < shape_.layers; ++mine.layer) {
        backend_->Attention(mine, member);
        member.Sync();
      }
    });
  }

 private:
  static std::vector<float> RandomFloats(int64_t n) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<float> out(static_cast<size_t>(n));
    for (float& value : out) value = normal(random);
    return out;
  }

  void FillPages(int32_t pages) {
    const int64_t width = int64_t{shape_.kv_heads} * shape_.head_dim;
    const std::vector<float> rows = RandomFloats(kernels::kPageTokens * width);
    const int32_t first = 0;
    const kernels::AttentionSequence whole{.rows = kernels::kPageTokens, .pages = &first};
    kernels::KvWriteParams write;
    write.k = write.v = rows.data();
    write.k_stride = write.v_stride = width;
    write.layout = layout_;
    write.pages = pages_.data();
    write.sequences = {&whole, 1};
    for (write.layer = 0; write.layer < shape_.layers; ++write.layer) {
      backend_->KvWrite(write, TeamMember{});
    }
    for (int32_t page = 1; page < pages; ++page) {
      std::memcpy(pages_.data() + page * layout_.PageBytes(), pages_.data(),
                  static_cast<size_t>(layout_.PageBytes()));
    }
  }

  const kernels::Backend* backend_;
  ThreadPool* pool_;
  const Shape shape_;
  KvLayout layout_;
  std::vector<int32_t> page_ids_;
  std::vector<kernels::AttentionSequence> sequences_;
  std::vector<float> q_;
  std::vector<float> out_;
  std::vector<float> scratch_;
  int64_t scratch_floats_ = 0;
  Buffer pages_;
};

Status Run(const BenchOptions& options, std::FILE* out) {
  ThreadPool pool(ThreadsOf(options));
  LORICA_ASSIGN_OR_RETURN(const auto backend, kernels::OpenCpuBackend());
  PrintMachine(pool.threads(), backend->name(), out);
  Report report(MachineLine(pool.threads(), backend->name()), "attention");
  LORICA_ASSIGN_OR_RETURN(Floor floor, Floor::Create(&pool, backend->name()));
  std::fprintf(out, "%-8s %12s %-8s %8s %8s %8s %8s %8s %7s %7s\n", "model", "sequences", "K/V",
               "MB", "floor ms", "q1 ms", "median", "q3", "share", "bf16 x");
  for (const Shape& shape : kShapes) {
    for (const Company& company : kCompanies) {
      struct Kind {
        DType dtype;
        Case work;
        std::vector<double> seconds = {};
      };
      std::vector<Kind> kinds;
      for (const DType dtype : {DType::kBF16, DType::kI8, DType::kF32}) {
        kinds.push_back({dtype, Case(backend.get(), &pool, shape)});
        LORICA_RETURN_IF_ERROR(kinds.back().work.Prepare(company, dtype));
        kinds.back().work.Run();
      }
      floor.Clear();
      for (int round = 0; round < options.rounds; ++round) {
        for (Kind& kind : kinds) {
          floor.Sample();
          kind.seconds.push_back(Seconds(pool.threads(), [&] { kind.work.Run(); }));
        }
      }
      const double bf16 = Summarize(kinds.front().seconds).median;
      for (const Kind& kind : kinds) {
        const double bytes = kind.work.Bytes();
        const double least = bytes / floor.ReadRate();
        const Quartiles q = Summarize(kind.seconds);
        const std::string company_name =
            std::to_string(company.sequences) + " x " + std::to_string(company.context);
        std::fprintf(out, "%-8s %12s %-8s %8.1f %8.3f %8.3f %8.3f %8.3f %6.0f%% %7.2f\n",
                     shape.name, company_name.c_str(), std::string(DTypeName(kind.dtype)).c_str(),
                     bytes / 1e6, least * 1e3, q.first * 1e3, q.median * 1e3, q.third * 1e3,
                     100.0 * least / q.median, bf16 / q.median);
        const std::string series =
            std::string(shape.name) + " " + std::string(DTypeName(kind.dtype));
        report.AddTimes(series, company.sequences, least, q);
        std::vector<double> ratios;
        for (size_t i = 0; i < kind.seconds.size(); ++i) {
          ratios.push_back(kinds.front().seconds[i] / kind.seconds[i]);
        }
        report.Add({series, static_cast<double>(company.sequences), "faster than bf16", "x",
                    Summarize(ratios)});
      }
      std::fprintf(out, "%8s read %.1f GB/s\n", "", floor.ReadRate() / 1e9);
    }
  }
  return report.Write(options.csv);
}

}  // namespace

int RunAttentionBench(const BenchOptions& options, std::FILE* out) {
  const Status status = Run(options, out);
  if (status.ok()) return 0;
  std::fprintf(stderr, "lorica: %s\n", status.message().c_str());
  return 1;
}

}  // namespace lorica::bench
