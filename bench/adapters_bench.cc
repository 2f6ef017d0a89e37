#include "bench/adapters_bench.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "bench/adapter_world.h"
#include "bench/publishing_bench.h"
#include "bench/timing.h"
#include "lorica/lora/adapter_loader.h"

namespace lorica::bench {
namespace {

constexpr uint32_t kTimedSeed = 9;  // of what is drawn
constexpr uint32_t kSettleSeed = 10;

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
                      const std::vector<double>& weights, std::FILE* out) {
  const AdaptersBenchOptions& options = world->options();
  const std::vector<int32_t> drawn = AdapterWorld::Draw(weights, options.requests, kTimedSeed);
  std::fprintf(out, "%-16s %9s %7s %7s %7s %7s %7s %7s %9s %9s\n", "", "tok/s", "p50 s", "p99 s",
               "p99/p50", "hits", "loads", "files", "ms a load", "memory MB");
  struct Side {
    std::unique_ptr<engine::Engine> engine;
    AdapterWorld::Traffic traffic;
    int64_t memory = 0;
  };
  Side sides[2];
  const int64_t model_memory = MemoryInUse(world->context());
  // One to spare, as chunks have tails.
  const AdapterWorld::EngineRoom all{options.adapters + 1 + options.adapters / 200, 0};
  for (const int tiers : {0, 1}) {
    const int64_t before = MemoryInUse(world->context());
    LORICA_ASSIGN_OR_RETURN(sides[tiers].engine, world->Open(tiers == 1 ? room : all));
    sides[tiers].memory = model_memory + MemoryInUse(world->context()) - before;
  }
  LORICA_RETURN_IF_ERROR(
      world->PublishAll({sides[0].engine.get(), sides[1].engine.get()}, options.adapters));
  // The arenas are there from the start; what is cold comes with the adapters.
  for (Side& side : sides) side.memory += side.engine->tiers().totals().cold_bytes;
  std::fflush(out);
  for (Side& side : sides) {
    LORICA_RETURN_IF_ERROR(
        world
            ->Serve(side.engine.get(), AdapterWorld::Draw(weights, options.settle, kSettleSeed), {})
            .status());
  }
  std::vector<double> kept;  // of the throughput, each turn
  for (int32_t turn = 0; turn < options.turns; ++turn) {
    const size_t begin = drawn.size() * static_cast<size_t>(turn) / options.turns;
    const size_t end = drawn.size() * static_cast<size_t>(turn + 1) / options.turns;
    const std::vector<int32_t> part(drawn.begin() + static_cast<ptrdiff_t>(begin),
                                    drawn.begin() + static_cast<ptrdiff_t>(end));
    double speed[2];
    // Who is first changes too.
    for (const int i : {turn % 2, 1 - turn % 2}) {
      LORICA_ASSIGN_OR_RETURN(
          const AdapterWorld::Traffic traffic,
          world->Serve(sides[i].engine.get(), part, {options.prompt, options.tokens}));
      speed[i] = traffic.tokens_per_second(options.tokens);
      sides[i].traffic.Add(traffic);
    }
    kept.push_back(speed[1] / speed[0]);
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
  const Quartiles quartiles = Summarize(kept);
  std::fprintf(out,
               "throughput kept with tiers: %.1f%% (%d turns: quartiles %.1f %.1f %.1f), memory: "
               "%.0f%%\n",
               100.0 * sides[1].traffic.tokens_per_second(options.tokens) /
                   sides[0].traffic.tokens_per_second(options.tokens),
               options.turns, 100.0 * quartiles.first, 100.0 * quartiles.median,
               100.0 * quartiles.third,
               100.0 * static_cast<double>(sides[1].memory) / static_cast<double>(sides[0].memory));
  return OkStatus();
}

Status CompareTiers(AdapterWorld* world, std::FILE* out) {
  const AdaptersBenchOptions& options = world->options();
  std::fprintf(
      out,
      "\n%d adapters of rank 16 (%.1f MB each, %d files), Zipf %.1f, %d clients, %d requests "
      "of %d + %d tokens, %d threads\n",
      options.adapters, static_cast<double>(world->tile_bytes()) / 1e6,
      options.contents > 0 ? options.contents : options.adapters, options.zipf, options.clients,
      options.requests, options.prompt, options.tokens, world->context().pool.threads());
  std::vector<double> weights;
  for (int32_t i = 1; i <= options.adapters; ++i) weights.push_back(std::pow(i, -options.zipf));
  return CompareEngines(world, {options.room, options.room}, weights, out);
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
  return CompareEngines(world, {active + 2, 0}, weights, out);
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
