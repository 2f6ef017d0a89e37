#include "bench/adapters_bench.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "bench/adapter_world.h"
#include "bench/timing.h"
#include "lorica/base/thread_priority.h"
#include "lorica/lora/adapter_loader.h"

namespace lorica::bench {
namespace {

constexpr int32_t kReplaced = 20;    // contents that publishing goes round
constexpr int32_t kStepBlock = 200;  // timed steps, alternately with and without publishing
constexpr int32_t kStepSequences = 8;

double Percentile(std::vector<double> sample, double share) {
  const auto at = static_cast<size_t>(share * static_cast<double>(sample.size() - 1));
  std::nth_element(sample.begin(), sample.begin() + static_cast<ptrdiff_t>(at), sample.end());
  return sample[at];
}

int64_t MemoryInUse(const MachineContext& context) {
  int64_t bytes = 0;
  for (int tag = 0; tag < kMemoryTags; ++tag) {
    bytes += context.ledger.bytes(static_cast<MemoryTag>(tag));
  }
  return bytes;
}

// The same requests on an engine with every adapter hot and on one with `room` for some, in turns,
// so that a drift of the machine touches both.
Status CompareEngines(AdapterWorld* world, const AdapterWorld::EngineRoom& room,
                      const std::vector<int32_t>& drawn, std::FILE* out) {
  const AdaptersBenchOptions& options = world->options();
  std::fprintf(out, "%-16s %9s %7s %7s %7s %7s %7s %7s %9s %9s\n", "", "tok/s", "p50 s", "p99 s",
               "p99/p50", "hits", "loads", "files", "ms a load", "memory MB");
  struct Side {
    std::unique_ptr<engine::Engine> engine;
    AdapterWorld::Traffic traffic;
    int64_t memory = 0;
  };
  Side sides[2];
  const int64_t model_memory = MemoryInUse(world->context());
  for (const int tiers : {0, 1}) {
    const int64_t before = MemoryInUse(world->context());
    LORICA_ASSIGN_OR_RETURN(
        sides[tiers].engine,
        world->Open(tiers == 1 ? room : AdapterWorld::EngineRoom{options.adapters, 0}));
    sides[tiers].memory = model_memory + MemoryInUse(world->context()) - before;
  }
  LORICA_RETURN_IF_ERROR(
      world->PublishAll({sides[0].engine.get(), sides[1].engine.get()}, options.adapters));
  // The arenas are there from the start; what is cold comes with the adapters.
  for (Side& side : sides) side.memory += side.engine->tiers().totals().cold_bytes;
  std::fflush(out);
  for (int32_t turn = 0; turn < options.turns; ++turn) {
    const size_t begin = drawn.size() * static_cast<size_t>(turn) / options.turns;
    const size_t end = drawn.size() * static_cast<size_t>(turn + 1) / options.turns;
    const std::vector<int32_t> part(drawn.begin() + static_cast<ptrdiff_t>(begin),
                                    drawn.begin() + static_cast<ptrdiff_t>(end));
    for (Side& side : sides) {
      LORICA_ASSIGN_OR_RETURN(const AdapterWorld::Traffic traffic,
                              world->Serve(side.engine.get(), part));
      side.traffic.Add(traffic);
    }
  }
  for (const int tiers : {0, 1}) {
    const AdapterWorld::Traffic& t = sides[tiers].traffic;
    const double p50 = Percentile(t.latency, 0.5);
    const double p99 = Percentile(t.latency, 0.99);
    std::fprintf(out, "%-16s %9.1f %7.2f %7.2f %7.2f %6.0f%% %7lld %7lld %9.1f %9.0f\n",
                 tiers == 1 ? ("room for " + std::to_string(room.hot)).c_str() : "all hot",
                 t.tokens_per_second(options.tokens), p50, p99, p99 / p50,
                 100.0 * static_cast<double>(t.totals.hits) /
                     static_cast<double>(std::max<int64_t>(1, t.totals.hits + t.totals.misses)),
                 static_cast<long long>(t.totals.loads),
                 static_cast<long long>(t.totals.loads_from_files),
                 static_cast<double>(t.totals.fetch_ns) / 1e6 /
                     static_cast<double>(std::max<int64_t>(1, t.totals.loads)),
                 static_cast<double>(sides[tiers].memory) / 1e6);
  }
  std::fprintf(out, "throughput kept with tiers: %.1f%%, memory: %.0f%%\n",
               100.0 * sides[1].traffic.tokens_per_second(options.tokens) /
                   sides[0].traffic.tokens_per_second(options.tokens),
               100.0 * static_cast<double>(sides[1].memory) / static_cast<double>(sides[0].memory));
  return OkStatus();
}

Status CompareTiers(AdapterWorld* world, std::FILE* out) {
  const AdaptersBenchOptions& options = world->options();
  std::fprintf(out,
               "\n%d adapters of rank 16 (%.1f MB each), Zipf %.1f, %d clients, %d requests of %d "
               "+ %d tokens, %d threads\n",
               options.adapters, static_cast<double>(world->tile_bytes()) / 1e6, options.zipf,
               options.clients, options.requests, options.prompt, options.tokens,
               world->context().pool.threads());
  std::vector<double> weights;
  for (int32_t i = 1; i <= options.adapters; ++i) weights.push_back(std::pow(i, -options.zipf));
  return CompareEngines(world, {options.room, options.room},
                        AdapterWorld::Draw(weights, options.requests), out);
}

// Few of the adapters that are registered are asked for, all of them alike.
Status CompareActive(AdapterWorld* world, std::FILE* out) {
  const AdaptersBenchOptions& options = world->options();
  const int32_t active = std::max(1, static_cast<int32_t>(options.adapters * options.active));
  std::fprintf(
      out, "\n%d of %d adapters are asked for, %d clients, %d requests of %d + %d tokens\n", active,
      options.adapters, options.clients, options.requests, options.prompt, options.tokens);
  // Room for two more, as chunks have tails. The last of the folder, so that none of them is hot at
  // first.
  std::vector<double> weights(static_cast<size_t>(options.adapters), 0.0);
  std::fill(weights.end() - active, weights.end(), 1.0);
  return CompareEngines(world, {active + 2, 0}, AdapterWorld::Draw(weights, options.requests), out);
}

// Publishes one content after another under one name while it is told to.
class Publisher {
 public:
  Publisher(AdapterWorld* world, engine::Engine* engine, int32_t contents)
      : thread_([this, world, engine, contents] {
          // As the server's thread that takes adapters in.
          LowerThreadPriority(ThreadPriority::kBackground);
          for (int32_t i = 0; !over_.load(); ++i) {
            if (!publishing_.load()) {
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
            } else if (world->Publish(engine, "replaced", i % contents).ok()) {
              published_.fetch_add(1);
            }
          }
        }) {}
  ~Publisher() {
    over_.store(true);
    thread_.join();
  }
  void Set(bool publishing) { publishing_.store(publishing); }
  int64_t published() const { return published_.load(); }

 private:
  std::atomic<bool> publishing_{false};
  std::atomic<bool> over_{false};
  std::atomic<int64_t> published_{0};
  std::thread thread_;
};

// Blocks of steps in turn, with and without a thread that publishes all the while. In a block the
// same number of sequences decodes at every step; prompts are not timed.
Status CompareSteps(AdapterWorld* world, std::FILE* out) {
  const AdaptersBenchOptions& options = world->options();
  const int32_t contents = std::min(kReplaced, options.adapters);
  const int32_t sequences = std::min(kStepSequences, options.clients);
  const int32_t asked = std::min(sequences, options.adapters);
  // Room for what is in flight, the current version and the next one.
  LORICA_ASSIGN_OR_RETURN(const auto engine, world->Open({asked + 4, contents}));
  LORICA_RETURN_IF_ERROR(world->PublishAll({engine.get()}, asked));
  LORICA_RETURN_IF_ERROR(world->Publish(engine.get(), "replaced", 0));
  std::vector<double> seconds[2];
  int64_t interrupted[2] = {0, 0};
  int64_t published = 0;
  {
    Publisher publisher(world, engine.get(), contents);
    uint32_t seed = 0;
    Status failed;
    for (int32_t block = 0; block * kStepBlock < 2 * options.steps; ++block) {
      for (int32_t i = 0; i < sequences; ++i) {
        AdapterWorld::Question question;
        question.adapter = i == 0 ? "replaced" : "a" + std::to_string(i % asked);
        question.seed = ++seed;
        question.prompt = 16;
        question.tokens = kStepBlock + 8;
        const auto id = engine->Submit(AdapterWorld::Ask(question), [&](engine::Event event) {
          if (!event.status.ok()) failed = event.status;
        });
        LORICA_RETURN_IF_ERROR(id.status());
      }
      const bool with = block % 2 == 1;
      publisher.Set(with);
      // Until all decode: an adapter may have to come in first.
      while (engine->metrics().Read().running < sequences && failed.ok()) engine->Step();
      for (int i = 0; i < 4; ++i) engine->Step();
      for (int32_t i = 0; i < kStepBlock; ++i) {
        const int64_t switches = ThreadInvoluntarySwitches();
        const double began = NowSeconds();
        engine->Step();
        seconds[with].push_back(NowSeconds() - began);
        if (ThreadInvoluntarySwitches() != switches) ++interrupted[with];
      }
      publisher.Set(false);
      engine->RunUntilIdle();
      LORICA_RETURN_IF_ERROR(failed);
    }
    published = publisher.published();
  }
  const double base = Percentile(seconds[0], 0.5);
  std::fprintf(out,
               "\n%zu steps of %d sequences on %d threads, in blocks of %d in turn, %lld adapters "
               "of %.1f MB published\n",
               seconds[0].size() + seconds[1].size(), sequences, world->context().pool.threads(),
               kStepBlock, static_cast<long long>(published),
               static_cast<double>(world->tile_bytes()) / 1e6);
  for (const int with : {0, 1}) {
    std::fprintf(out,
                 "%-20s median %7.3f ms  p99 %7.3f  p99.9 %7.3f  (%.2f and %.2f of the median "
                 "without); put off a core in %lld\n",
                 with ? "while publishing" : "without", 1e3 * Percentile(seconds[with], 0.5),
                 1e3 * Percentile(seconds[with], 0.99), 1e3 * Percentile(seconds[with], 0.999),
                 Percentile(seconds[with], 0.99) / base, Percentile(seconds[with], 0.999) / base,
                 static_cast<long long>(interrupted[with]));
  }
  return OkStatus();
}

// One adapter at a time: dynamic, or merged into a model of its own.
Status ComparePaths(AdapterWorld* world, std::FILE* out) {
  const AdaptersBenchOptions& options = world->options();
  LORICA_ASSIGN_OR_RETURN(const auto engine, world->Open({4, 0}));
  const auto speed = [&](const std::string& adapter) -> double {
    int64_t tokens = 0;
    for (int32_t i = 0; i < options.clients; ++i) {
      (void)engine->Submit(
          AdapterWorld::Ask({adapter, static_cast<uint32_t>(i), options.prompt, options.tokens}),
          [&](const engine::Event& event) { tokens += static_cast<int64_t>(event.tokens.size()); });
    }
    const double began = NowSeconds();
    engine->RunUntilIdle();
    return static_cast<double>(tokens) / (NowSeconds() - began);
  };
  const int32_t content = std::min(1, options.adapters - 1);
  double began = NowSeconds();
  LORICA_RETURN_IF_ERROR(world->Publish(engine.get(), "switched", content));
  const double dynamic_switch = NowSeconds() - began;
  const double base = speed("");
  const double dynamic = speed("switched");
  const auto weights = static_cast<double>(world->context().ledger.bytes(MemoryTag::kWeights));
  double merged_switch = 0.0;
  if (!options.model.empty()) {
    LORICA_ASSIGN_OR_RETURN(auto adapter,
                            lora::LoadAdapter(world->PathOf(content), world->model(), {}, nullptr));
    model::ModelOptions load;
    load.compute_type = world->type();
    load.merge = adapter.get();
    began = NowSeconds();
    LORICA_RETURN_IF_ERROR(
        model::Model::Load(options.model, load, world->backend(), &world->context()).status());
    merged_switch = NowSeconds() - began;
  }
  const double twenty = 20.0 * static_cast<double>(world->tile_bytes());
  std::fprintf(out, "\n%-10s %14s %22s %20s\n", "path", "switch, s", "20 adapters, MB",
               "tokens/s on one");
  std::fprintf(out, "%-10s %14.3f %22.0f %20.1f\n", "dynamic", dynamic_switch,
               (weights + twenty) / 1e6, dynamic);
  std::fprintf(out, "%-10s %14.3f %22.0f %20.1f%s\n", "merged", merged_switch, 20.0 * weights / 1e6,
               base, options.model.empty() ? "  (name a MODEL to time its switch)" : "");
  return OkStatus();
}

}  // namespace

int RunAdaptersBench(const AdaptersBenchOptions& options, std::FILE* out) {
  const auto run = [&]() -> Status {
    LORICA_ASSIGN_OR_RETURN(const std::unique_ptr<AdapterWorld> world, AdapterWorld::Make(options));
    PrintMachine(world->context().pool.threads(), world->model().backend().name(), out);
    const auto wanted = [&](std::string_view table) {
      return options.table.empty() || options.table == table;
    };
    if (wanted("tiers")) LORICA_RETURN_IF_ERROR(CompareTiers(world.get(), out));
    if (wanted("active")) LORICA_RETURN_IF_ERROR(CompareActive(world.get(), out));
    if (wanted("steps")) LORICA_RETURN_IF_ERROR(CompareSteps(world.get(), out));
    if (wanted("paths")) LORICA_RETURN_IF_ERROR(ComparePaths(world.get(), out));
    return OkStatus();
  };
  const Status status = run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "lorica: %s\n", status.message().c_str());
  return 1;
}

}  // namespace lorica::bench
