#include "bench/scaling_bench.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/report.h"
#include "bench/step_world.h"

namespace lorica::bench {
namespace {

constexpr int32_t kBatch = 64;  // of the curve over distinct adapters
constexpr int32_t kSome = 16;   // sequences where the batch is not what varies

// One point of a curve, on an engine of its own or one that it shares.
struct Point {
  std::string series;
  double x = 0.0;
  StepWorld* world = nullptr;
  StepWorld::Company company;
  std::vector<double> seconds = {};
  std::vector<double> ratios = {};  // of each turn, to the first point of the series
};

// All points in turn, so that a drift of the machine touches each.
Status TimePoints(int32_t turns, std::vector<Point>* points) {
  for (int32_t turn = 0; turn <= turns; ++turn) {
    for (Point& point : *points) {
      point.world->floor().Sample();
      LORICA_ASSIGN_OR_RETURN(const std::vector<double> seconds,
                              point.world->Decode(point.company, nullptr));
      if (turn == 0) continue;  // warms pages and caches
      point.seconds.push_back(Summarize(seconds).median);
      const auto first = std::find_if(points->begin(), points->end(), [&](const Point& other) {
        return other.series == point.series;
      });
      point.ratios.push_back(point.seconds.back() / first->seconds.back());
    }
  }
  return OkStatus();
}

void PrintPoints(const std::string& x_name, const std::vector<Point>& points, Report* report,
                 std::FILE* out) {
  std::fprintf(out, "%s\n%-24s %10s %9s %9s %9s %9s %9s %8s  %s\n",
               points.back().world->Rates().c_str(), "decode step", x_name.c_str(), "MB",
               "floor ms", "q1 ms", "median", "q3", "share", "x the first [quartiles]");
  for (const Point& point : points) {
    const StepWorld::Work work = point.world->DecodeWork(point.company);
    const double floor = point.world->FloorSeconds(work);
    const Quartiles q = Summarize(point.seconds);
    const Quartiles r = Summarize(point.ratios);
    std::fprintf(out, "%-24s %10g %9.1f %9.2f %9.2f %9.2f %9.2f %7.0f%%  %.3f [%.3f %.3f]\n",
                 point.series.c_str(), point.x, work.bytes / 1e6, floor * 1e3, q.first * 1e3,
                 q.median * 1e3, q.third * 1e3, 100.0 * floor / q.median, r.median, r.first,
                 r.third);
    report->AddTimes(point.series, point.x, floor, q);
    report->Add({point.series, point.x, "to the first", "x", r});
  }
}

std::vector<RandomAdapterSpec> Adapters(int32_t count, int32_t rank) {
  std::vector<RandomAdapterSpec> specs;
  for (int32_t i = 0; i < count; ++i) {
    specs.push_back({.rank = rank, .seed = static_cast<uint32_t>(i)});
  }
  return specs;
}

class Scaling {
 public:
  Scaling(const StepBenchOptions& options, const BenchModel& model)
      : options_(options), model_(model) {}

  // Worlds and points of the curve that was asked for.
  Status Prepare() {
    if (options_.scaling == "distinct") return Distinct();
    if (options_.scaling == "rank") return Rank();
    if (options_.scaling == "batch") return Batch();
    if (options_.scaling == "context") return Context();
    if (options_.scaling == "loaded") return Loaded();
    return Threads();
  }

  Status Run(std::FILE* out) {
    worlds_.back()->PrintHead(out);
    std::fflush(out);
    LORICA_RETURN_IF_ERROR(TimePoints(options_.turns, &points_));
    Report report(worlds_.back()->Machine(), options_.scaling);
    PrintPoints(x_name_, points_, &report, out);
    if (options_.scaling == "distinct") PrintSlope(&report, out);
    return report.Write(options_.csv);
  }

 private:
  Status Open(StepWorld::Options options) {
    if (options.threads == 0) options.threads = options_.threads;
    options.positions += options_.steps + 1;
    LORICA_ASSIGN_OR_RETURN(auto world, StepWorld::Make(&model_, options));
    worlds_.push_back(std::move(world));
    return OkStatus();
  }
  void Add(const std::string& series, double x, StepWorld::Company company) {
    company.steps = options_.steps;
    points_.push_back({series, x, worlds_.back().get(), company});
  }

  Status Distinct() {
    x_name_ = "adapters";
    LORICA_RETURN_IF_ERROR(Open({.sequences = kBatch,
                                 .positions = options_.context,
                                 .adapters = Adapters(kBatch, options_.ranks.front())}));
    for (const int32_t count : {1, 2, 4, 8, 16, 32, 64}) {
      Add("64 sequences", count,
          {.sequences = kBatch, .context = options_.context, .adapters = count});
    }
    return OkStatus();
  }

  Status Rank() {
    x_name_ = "rank";
    const int32_t ranks[] = {8, 16, 32, 64, 128};
    std::vector<RandomAdapterSpec> adapters;
    for (const int32_t rank : ranks) {
      for (const RandomAdapterSpec& spec : Adapters(kSome, rank)) adapters.push_back(spec);
    }
    LORICA_RETURN_IF_ERROR(
        Open({.sequences = kSome, .positions = options_.context, .adapters = std::move(adapters)}));
    int32_t first = 0;
    for (const int32_t rank : ranks) {
      Add("16 sequences", rank,
          {.sequences = kSome,
           .context = options_.context,
           .adapters = kSome,
           .first_adapter = std::exchange(first, first + kSome)});
    }
    return OkStatus();
  }

  Status Batch() {
    x_name_ = "sequences";
    LORICA_RETURN_IF_ERROR(Open({.sequences = kBatch,
                                 .positions = options_.context,
                                 .adapters = Adapters(kBatch, options_.ranks.front())}));
    for (const bool adapters : {false, true}) {
      for (const int32_t sequences : {1, 2, 4, 8, 16, 32, 64}) {
        Add(adapters ? "an adapter a sequence" : "base alone", sequences,
            {.sequences = sequences,
             .context = options_.context,
             .adapters = adapters ? sequences : 0});
      }
    }
    return OkStatus();
  }

  Status Context() {
    x_name_ = "context";
    constexpr int32_t kLongest = 8000;
    constexpr int32_t kSequences = 8;
    LORICA_RETURN_IF_ERROR(Open({.sequences = kSequences,
                                 .positions = kLongest,
                                 .adapters = Adapters(kSequences, options_.ranks.front())}));
    for (const int32_t context : {16, 256, 1024, 2048, 4096, kLongest}) {
      Add("8 sequences", context,
          {.sequences = kSequences, .context = context, .adapters = kSequences});
    }
    return OkStatus();
  }

  // One adapter of rank 8 on q and v is 0.92 MB for SmolLM2. The sequences' adapters lie all over
  // the arena.
  Status Loaded() {
    x_name_ = "loaded";
    constexpr int32_t kActive = 8;
    for (const int32_t loaded : {10, 100, 1000, 10000}) {
      std::vector<RandomAdapterSpec> adapters = Adapters(loaded, 8);
      for (RandomAdapterSpec& spec : adapters) {
        spec.projections = {lora::Projection::kQ, lora::Projection::kV};
      }
      LORICA_RETURN_IF_ERROR(Open({.threads = options_.threads == 0 ? 1 : options_.threads,
                                   .sequences = kSome,
                                   .positions = options_.context,
                                   .adapters = std::move(adapters)}));
      Add("16 sequences on 8 of them", loaded,
          {.sequences = kSome,
           .context = options_.context,
           .adapters = kActive,
           .stride = loaded / kActive});
    }
    return OkStatus();
  }

  Status Threads() {
    x_name_ = "threads";
    const int most = ThreadsOf({});
    for (int threads = 1; threads <= most; threads += threads < 8 ? 1 : 4) {
      LORICA_RETURN_IF_ERROR(Open({.threads = threads,
                                   .sequences = kSome,
                                   .positions = options_.context,
                                   .adapters = Adapters(kSome, options_.ranks.front())}));
      for (const bool adapters : {false, true}) {
        Add(adapters ? "an adapter a sequence" : "base alone", threads,
            {.sequences = kSome, .context = options_.context, .adapters = adapters ? kSome : 0});
      }
    }
    return OkStatus();
  }

  // Of the line through all points: time of one more adapter against that of reading its bytes.
  void PrintSlope(Report* report, std::FILE* out) const {
    const size_t turns = points_.front().seconds.size();
    const double bytes = worlds_.back()->AdapterBytes({.sequences = 1, .adapters = 1});
    const double read = bytes / worlds_.back()->floor().ReadRate();
    std::vector<double> slopes;
    for (size_t turn = 0; turn < turns; ++turn) {
      double mean_x = 0.0;
      double mean_y = 0.0;
      const auto count = static_cast<double>(points_.size());
      for (const Point& point : points_) {
        mean_x += point.x / count;
        mean_y += point.seconds[turn] / count;
      }
      double xy = 0.0;
      double xx = 0.0;
      for (const Point& point : points_) {
        xy += (point.x - mean_x) * (point.seconds[turn] - mean_y);
        xx += (point.x - mean_x) * (point.x - mean_x);
      }
      slopes.push_back(xy / xx / read);
    }
    const Quartiles q = Summarize(slopes);
    std::fprintf(out, "one more adapter (%.2f MB): %.2f x its bytes / read rate [%.2f %.2f]\n",
                 bytes / 1e6, q.median, q.first, q.third);
    report->Add({"64 sequences", 0.0, "slope", "x", q});
  }

  const StepBenchOptions& options_;
  const BenchModel& model_;
  std::vector<std::unique_ptr<StepWorld>> worlds_;
  std::vector<Point> points_;
  std::string x_name_;
};

}  // namespace

Status RunScaling(const StepBenchOptions& options, const BenchModel& model, std::FILE* out) {
  Scaling scaling(options, model);
  LORICA_RETURN_IF_ERROR(scaling.Prepare());
  return scaling.Run(out);
}

}  // namespace lorica::bench
