#include "bench/adapters_bench.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "bench/adapter_folder_writer.h"
#include "bench/timing.h"
#include "lorica/base/file_system.h"
#include "lorica/engine/engine.h"
#include "lorica/kernels/open_backend.h"
#include "lorica/lora/adapter_loader.h"

namespace lorica::bench {
namespace {

constexpr int32_t kRank = 16;
constexpr uint64_t kSeed = 5;
constexpr int32_t kReplaced = 20;  // contents that publishing goes round

model::ModelConfig SmolConfig() {
  model::ModelConfig config;
  config.layers = 30;
  config.width = 576;
  config.ffn_width = 1536;
  config.vocab = 49152;
  config.heads = 9;
  config.kv_heads = 3;
  config.head_dim = 64;
  config.max_positions = 2048;
  config.tied_head = true;
  config.score_scale = 0.125;
  config.layer.resize(30);
  return config;
}

double Percentile(std::vector<double> sample, double share) {
  const auto at = static_cast<size_t>(share * static_cast<double>(sample.size() - 1));
  std::nth_element(sample.begin(), sample.begin() + static_cast<ptrdiff_t>(at), sample.end());
  return sample[at];
}

struct Traffic {
  double seconds = 0.0;
  double tokens_per_second = 0.0;
  std::vector<double> latency;
  lora::AdapterTiers::Totals totals;
  int64_t preemptions = 0;
};

class World {
 public:
  explicit World(const AdaptersBenchOptions& options)
      : options_(options), context_(ThreadsOf({.threads = options.threads})) {
    std::string pattern = "/tmp/lorica-bench-XXXXXX";
    folder_ = mkdtemp(pattern.data()) == nullptr ? "" : pattern;
  }
  ~World() { (void)MakePosixFileSystem()->Remove(folder_); }

  Status Prepare() {
    LORICA_ASSIGN_OR_RETURN(backend_, kernels::OpenCpuBackend());
    LORICA_ASSIGN_OR_RETURN(type_, model::ParseComputeType(options_.dtype));
    LORICA_RETURN_IF_ERROR(LoadModel());
    for (int32_t i = 0; i < options_.adapters; ++i) {
      LORICA_RETURN_IF_ERROR(
          WriteRandomAdapter(PathOf(i), *model_, kRank, static_cast<uint32_t>(i)));
    }
    return OkStatus();
  }
  Status LoadModel() {
    if (options_.model.empty()) {
      LORICA_ASSIGN_OR_RETURN(model_, model::Model::Synthetic(SmolConfig(), {.compute_type = type_},
                                                              kSeed, backend_.get(), &context_));
    } else {
      model::ModelOptions load;
      load.compute_type = type_;
      LORICA_ASSIGN_OR_RETURN(model_,
                              model::Model::Load(options_.model, load, backend_.get(), &context_));
    }
    return OkStatus();
  }

  // An engine whose arena holds `room` adapters; all of them published from their files.
  Result<std::unique_ptr<engine::Engine>> Open(int32_t room, int64_t cold_bytes) {
    engine::EngineOptions options;
    options.max_num_seqs = options_.clients;
    options.kv_bytes = int64_t{512} << 20;
    options.adapter_bytes = room * TileBytes() + TileBytes() / 2;
    options.cold_bytes = cold_bytes;
    options.prefix_reuse = false;  // every prompt is computed, in both cases
    LORICA_ASSIGN_OR_RETURN(auto engine,
                            engine::Engine::Create(model_.get(), nullptr, options, &context_));
    for (int32_t i = 0; i < options_.adapters; ++i) {
      LORICA_RETURN_IF_ERROR(Publish(engine.get(), "a" + std::to_string(i), i));
    }
    return engine;
  }
  Status Publish(engine::Engine* engine, const std::string& name, int32_t index) {
    LORICA_ASSIGN_OR_RETURN(const lora::FileIdentity identity,
                            lora::ReadFileIdentity(PathOf(index)));
    LORICA_ASSIGN_OR_RETURN(auto adapter, lora::LoadAdapter(PathOf(index), *model_, {}, nullptr));
    return engine->PublishAdapter(name, {PathOf(index), identity}, std::move(adapter));
  }

  engine::Request Ask(const std::string& adapter, uint32_t seed, int32_t tokens) const {
    engine::Request request;
    for (int32_t t = 0; t < options_.prompt; ++t) {
      request.prompt.push_back(static_cast<int32_t>((seed * 7919u + t * 104729u) % 40000u));
    }
    request.adapter = adapter;
    request.sampling.temperature = 0.0;
    request.sampling.ignore_eos = true;
    request.sampling.max_tokens = tokens;
    return request;
  }

  // `clients` at a time, adapters by Zipf; the same requests for every engine.
  Result<Traffic> Serve(engine::Engine* engine) {
    std::vector<double> weights;
    for (int32_t i = 1; i <= options_.adapters; ++i) weights.push_back(std::pow(i, -options_.zipf));
    std::discrete_distribution<int> zipf(weights.begin(), weights.end());
    std::mt19937 random(9);
    Traffic traffic;
    int32_t submitted = 0;
    int32_t ended = 0;
    Status failed;
    const std::function<void()> next = [&] {
      if (submitted == options_.requests) return;
      const auto seed = static_cast<uint32_t>(submitted++);
      const double began = NowSeconds();
      const auto id = engine->Submit(Ask("a" + std::to_string(zipf(random)), seed, options_.tokens),
                                     [&, began](engine::Event event) {
                                       if (!event.status.ok()) failed = event.status;
                                       if (event.finish == engine::FinishReason::kNone) return;
                                       traffic.latency.push_back(NowSeconds() - began);
                                       ++ended;
                                       next();
                                     });
      if (!id.ok()) failed = id.status();
    };
    const lora::AdapterTiers::Totals before = engine->tiers().totals();
    const double began = NowSeconds();
    for (int32_t i = 0; i < options_.clients; ++i) next();
    while (ended < options_.requests && failed.ok()) {
      engine->Step();
      if (ended < options_.requests) engine->WaitForWork();
    }
    LORICA_RETURN_IF_ERROR(failed);
    traffic.seconds = NowSeconds() - began;
    traffic.tokens_per_second = options_.requests * options_.tokens / traffic.seconds;
    traffic.totals = engine->tiers().totals();
    traffic.totals.hits -= before.hits;
    traffic.totals.misses -= before.misses;
    traffic.totals.loads -= before.loads;
    traffic.preemptions = engine->metrics().Read().preemptions;
    return traffic;
  }

  Status CompareTiers(std::FILE* out) {
    std::fprintf(
        out,
        "\n%d adapters of rank 16 (%.1f MB each), Zipf %.1f, %d clients, %d requests of %d + "
        "%d tokens\n%-22s %9s %7s %7s %7s %6s %7s %9s %9s\n",
        options_.adapters, static_cast<double>(TileBytes()) / 1e6, options_.zipf, options_.clients,
        options_.requests, options_.prompt, options_.tokens, "", "tok/s", "p50 s", "p99 s",
        "p99/p50", "hits", "loads", "hot MB", "cold MB");
    double all_hot = 0.0;
    for (const bool tiers : {false, true}) {
      const int32_t room = tiers ? options_.room : options_.adapters;
      LORICA_ASSIGN_OR_RETURN(const auto engine,
                              Open(room, tiers ? options_.room * TileBytes() : 0));
      LORICA_ASSIGN_OR_RETURN(const Traffic t, Serve(engine.get()));
      const double p50 = Percentile(t.latency, 0.5);
      const double p99 = Percentile(t.latency, 0.99);
      std::fprintf(out, "%-22s %9.1f %7.2f %7.2f %7.2f %5.0f%% %7lld %9.1f %9.1f\n",
                   tiers ? ("room for " + std::to_string(room)).c_str() : "all hot",
                   t.tokens_per_second, p50, p99, p99 / p50,
                   100.0 * static_cast<double>(t.totals.hits) /
                       static_cast<double>(std::max<int64_t>(1, t.totals.hits + t.totals.misses)),
                   static_cast<long long>(t.totals.loads),
                   static_cast<double>(t.totals.hot_bytes) / 1e6,
                   static_cast<double>(t.totals.cold_bytes) / 1e6);
      if (tiers) {
        std::fprintf(out, "throughput kept with tiers: %.1f%%\n",
                     100.0 * t.tokens_per_second / all_hot);
      } else {
        all_hot = t.tokens_per_second;
      }
    }
    return OkStatus();
  }

  // Blocks of steps in turn, with and without a thread that publishes all the while.
  Status CompareSteps(std::FILE* out) {
    LORICA_ASSIGN_OR_RETURN(const auto engine, Open(options_.adapters, int64_t{1} << 30));
    std::atomic<bool> publishing{false};
    std::atomic<bool> over{false};
    std::atomic<int64_t> published{0};
    std::thread publisher([&] {
      for (int32_t i = 0; !over.load(); ++i) {
        if (!publishing.load()) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          continue;
        }
        const int32_t content = i % std::min(kReplaced, options_.adapters);
        if (Publish(engine.get(), "replaced", content).ok()) published.fetch_add(1);
      }
    });
    const int32_t sequences = std::min(8, options_.clients);
    std::vector<double> seconds[2];
    uint32_t seed = 0;
    int32_t alive = 0;
    const int32_t block = 100;
    for (int32_t step = 0; step < 2 * options_.steps;) {
      for (; alive < sequences; ++alive) {
        const auto id =
            engine->Submit(Ask("a" + std::to_string(alive), ++seed, 256), [&](engine::Event event) {
              if (event.finish != engine::FinishReason::kNone) --alive;
            });
        LORICA_RETURN_IF_ERROR(id.status());
      }
      // Prompts are not timed.
      for (int i = 0; i < 4; ++i) engine->Step();
      const bool with = step / block % 2 == 1;
      publishing.store(with);
      for (int32_t i = 0; i < block; ++i, ++step) {
        const double began = NowSeconds();
        engine->Step();
        seconds[with].push_back(NowSeconds() - began);
      }
      publishing.store(false);
    }
    over.store(true);
    publisher.join();
    const double base = Percentile(seconds[0], 0.5);
    std::fprintf(
        out, "\n%d steps of %d sequences on %d threads, in blocks of %d in turn, %lld published\n",
        2 * options_.steps, sequences, context_.pool.threads(), block,
        static_cast<long long>(published.load()));
    for (const int with : {0, 1}) {
      std::fprintf(out,
                   "%-20s median %7.2f ms  p99 %7.2f  p99.9 %7.2f  (%.2f and %.2f of the median "
                   "without)\n",
                   with ? "while publishing" : "without", 1e3 * Percentile(seconds[with], 0.5),
                   1e3 * Percentile(seconds[with], 0.99), 1e3 * Percentile(seconds[with], 0.999),
                   Percentile(seconds[with], 0.99) / base, Percentile(seconds[with], 0.999) / base);
    }
    return OkStatus();
  }

  // One adapter at a time: dynamic, or merged into a model of its own.
  Status ComparePaths(std::FILE* out) {
    LORICA_ASSIGN_OR_RETURN(const auto engine, Open(options_.adapters, 0));
    const auto speed = [&](const std::string& adapter) -> double {
      int64_t tokens = 0;
      for (int32_t i = 0; i < options_.clients; ++i) {
        (void)engine->Submit(Ask(adapter, static_cast<uint32_t>(i), 32),
                             [&](engine::Event event) { tokens += event.tokens.size(); });
      }
      const double began = NowSeconds();
      engine->RunUntilIdle();
      return static_cast<double>(tokens) / (NowSeconds() - began);
    };
    double began = NowSeconds();
    LORICA_RETURN_IF_ERROR(Publish(engine.get(), "switched", 1));
    const double dynamic_switch = NowSeconds() - began;
    const double base = speed("");
    const double dynamic = speed("switched");
    const auto weights = static_cast<double>(context_.ledger.bytes(MemoryTag::kWeights));
    LORICA_ASSIGN_OR_RETURN(auto adapter, lora::LoadAdapter(PathOf(1), *model_, {}, nullptr));
    double merged_switch = 0.0;
    if (!options_.model.empty()) {
      model::ModelOptions load;
      load.compute_type = type_;
      load.merge = adapter.get();
      began = NowSeconds();
      LORICA_RETURN_IF_ERROR(
          model::Model::Load(options_.model, load, backend_.get(), &context_).status());
      merged_switch = NowSeconds() - began;
    }
    const double twenty = 20.0 * static_cast<double>(TileBytes());
    std::fprintf(out, "\n%-10s %14s %22s %20s\n", "path", "switch, s", "20 adapters, MB",
                 "tokens/s on one");
    std::fprintf(out, "%-10s %14.3f %22.0f %20.1f\n", "dynamic", dynamic_switch,
                 (weights + twenty) / 1e6, dynamic);
    std::fprintf(out, "%-10s %14.3f %22.0f %20.1f%s\n", "merged", merged_switch,
                 20.0 * weights / 1e6, base,
                 options_.model.empty() ? "  (name a MODEL to time its switch)" : "");
    return OkStatus();
  }

 private:
  std::string PathOf(int32_t index) const { return folder_ + "/" + std::to_string(index); }
  int64_t TileBytes() {
    if (tile_bytes_ > 0) return tile_bytes_;
    const lora::TilePacker& packer = model_->backend().tile_packer();
    for (int32_t i = 0; i < model_->sites().layers * lora::kProjections; ++i) {
      const lora::SiteShape shape = model_->Shape({i});
      tile_bytes_ += packer.TileBytes({shape.k, shape.n, DType::kBF16}) *
                     lora::TileCount(kRank, packer.rank_quantum());
    }
    return tile_bytes_;
  }

  const AdaptersBenchOptions options_;
  std::string folder_;
  MachineContext context_;
  std::unique_ptr<kernels::Backend> backend_;
  model::ComputeType type_ = model::ComputeType::kAuto;
  std::unique_ptr<model::Model> model_;
  int64_t tile_bytes_ = 0;
};

}  // namespace

int RunAdaptersBench(const AdaptersBenchOptions& options, std::FILE* out) {
  World world(options);
  const auto run = [&]() -> Status {
    LORICA_RETURN_IF_ERROR(world.Prepare());
    LORICA_RETURN_IF_ERROR(world.CompareTiers(out));
    std::fflush(out);
    LORICA_RETURN_IF_ERROR(world.CompareSteps(out));
    std::fflush(out);
    return world.ComparePaths(out);
  };
  const Status status = run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "lorica: %s\n", status.message().c_str());
  return 1;
}

}  // namespace lorica::bench
