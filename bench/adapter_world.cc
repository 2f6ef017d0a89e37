#include "bench/adapter_world.h"

#include <stdlib.h>

#include <functional>
#include <random>
#include <utility>

#include "bench/adapter_folder_writer.h"
#include "bench/bench_model.h"
#include "bench/timing.h"
#include "lorica/base/file_system.h"
#include "lorica/kernels/open_backend.h"
#include "lorica/lora/adapter_loader.h"

namespace lorica::bench {
namespace {

constexpr int32_t kRank = 16;
constexpr uint64_t kSeed = 5;

// SmolLM2-135M's shape, of as many layers and words as asked.
Result<model::ModelConfig> SmolConfig(int32_t layers, int32_t vocab) {
  LORICA_ASSIGN_OR_RETURN(model::ModelConfig config, ModelShape("smollm2"));
  config.layers = layers;
  config.vocab = vocab;
  config.layer.resize(static_cast<size_t>(layers));
  return config;
}

}  // namespace

AdapterWorld::AdapterWorld(const AdaptersBenchOptions& options)
    : options_(options), context_(ThreadsOf({.threads = options.threads})) {}

AdapterWorld::~AdapterWorld() {
  if (options_.folder.empty() && !folder_.empty()) (void)MakePosixFileSystem()->Remove(folder_);
}

Result<std::unique_ptr<AdapterWorld>> AdapterWorld::Make(const AdaptersBenchOptions& options) {
  std::unique_ptr<AdapterWorld> world(new AdapterWorld(options));
  LORICA_ASSIGN_OR_RETURN(world->backend_, kernels::OpenCpuBackend());
  LORICA_ASSIGN_OR_RETURN(world->type_, model::ParseComputeType(options.dtype));
  LORICA_RETURN_IF_ERROR(world->LoadModel());
  LORICA_RETURN_IF_ERROR(world->WriteAdapters());
  const lora::TilePacker& packer = world->model_->backend().tile_packer();
  for (int32_t i = 0; i < world->model_->sites().layers * lora::kProjections; ++i) {
    const lora::SiteShape shape = world->model_->Shape({i});
    world->tile_bytes_ += packer.TileBytes({shape.k, shape.n, DType::kBF16}) *
                          lora::TileCount(kRank, packer.rank_quantum());
  }
  return world;
}

Status AdapterWorld::LoadModel() {
  if (options_.model.empty()) {
    LORICA_ASSIGN_OR_RETURN(const model::ModelConfig config,
                            SmolConfig(options_.layers, options_.vocab));
    LORICA_ASSIGN_OR_RETURN(model_, model::Model::Synthetic(config, {.compute_type = type_}, kSeed,
                                                            backend_.get(), &context_));
    return OkStatus();
  }
  model::ModelOptions load;
  load.compute_type = type_;
  LORICA_ASSIGN_OR_RETURN(model_,
                          model::Model::Load(options_.model, load, backend_.get(), &context_));
  return OkStatus();
}

Status AdapterWorld::WriteAdapters() {
  const std::unique_ptr<FileSystem> files = MakePosixFileSystem();
  if (options_.folder.empty()) {
    std::string pattern = "/tmp/lorica-bench-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) return Unavailable("/tmp: no folder can be made");
    folder_ = pattern;
  } else {
    folder_ = options_.folder;
    LORICA_RETURN_IF_ERROR(files->MakeFolder(folder_));
  }
  for (int32_t i = 0; i < options_.adapters; ++i) {
    if (files->Exists(PathOf(i) + "/adapter_model.safetensors")) continue;
    const int32_t contents = options_.contents > 0 ? options_.contents : options_.adapters;
    if (i < contents) {
      LORICA_RETURN_IF_ERROR(
          WriteRandomAdapter(PathOf(i), *model_, kRank, static_cast<uint32_t>(i)));
    } else {
      LORICA_RETURN_IF_ERROR(
          WriteLinkedAdapter(PathOf(i), PathOf(i % contents), kRank, kRank + i / contents));
    }
  }
  return OkStatus();
}

Result<std::unique_ptr<engine::Engine>> AdapterWorld::Open(const EngineRoom& room) {
  engine::EngineOptions options;
  options.max_num_seqs = options_.clients;
  options.max_adapters = room.hot + 64;
  options.kv_bytes = int64_t{128} << 20;
  options.adapter_bytes = room.hot * tile_bytes_ + tile_bytes_ / 2;
  options.cold_bytes = room.cold * tile_bytes_;
  options.prefix_reuse = false;
  return engine::Engine::Create(model_.get(), nullptr, options, &context_);
}

Status AdapterWorld::PublishAll(const std::vector<engine::Engine*>& engines, int32_t adapters) {
  for (int32_t i = 0; i < adapters; ++i) {
    LORICA_ASSIGN_OR_RETURN(const lora::FileIdentity identity, lora::ReadFileIdentity(PathOf(i)));
    LORICA_ASSIGN_OR_RETURN(const auto adapter, lora::LoadAdapter(PathOf(i), *model_, {}, nullptr));
    for (engine::Engine* engine : engines) {
      LORICA_RETURN_IF_ERROR(
          engine->PublishAdapter("a" + std::to_string(i), {PathOf(i), identity}, adapter));
    }
  }
  return OkStatus();
}

Status AdapterWorld::Publish(engine::Engine* engine, const std::string& name, int32_t index) {
  LORICA_ASSIGN_OR_RETURN(const lora::FileIdentity identity, lora::ReadFileIdentity(PathOf(index)));
  LORICA_ASSIGN_OR_RETURN(auto adapter, lora::LoadAdapter(PathOf(index), *model_, {}, nullptr));
  return engine->PublishAdapter(name, {PathOf(index), identity}, std::move(adapter));
}

engine::Request AdapterWorld::Ask(const Question& question) {
  engine::Request request;
  for (int32_t t = 0; t < question.prompt; ++t) {
    request.prompt.push_back(
        static_cast<int32_t>((question.seed * 7919u + static_cast<uint32_t>(t) * 104729u) % 4000u));
  }
  request.adapter = question.adapter;
  request.sampling.temperature = 0.0;
  request.sampling.ignore_eos = true;
  request.sampling.max_tokens = question.tokens;
  return request;
}

std::vector<int32_t> AdapterWorld::Draw(const std::vector<double>& weights, int32_t requests,
                                        uint32_t seed) {
  std::discrete_distribution<int32_t> popularity(weights.begin(), weights.end());
  std::mt19937 random(seed);
  std::vector<int32_t> drawn;
  for (int32_t i = 0; i < requests; ++i) drawn.push_back(popularity(random));
  return drawn;
}

void AdapterWorld::Traffic::Add(const Traffic& more) {
  seconds += more.seconds;
  latency.insert(latency.end(), more.latency.begin(), more.latency.end());
  totals.hits += more.totals.hits;
  totals.misses += more.totals.misses;
  totals.loads += more.totals.loads;
  totals.loads_from_files += more.totals.loads_from_files;
  totals.fetch_ns += more.totals.fetch_ns;
  totals.hot_bytes = more.totals.hot_bytes;
  totals.cold_bytes = more.totals.cold_bytes;
}

Result<AdapterWorld::Traffic> AdapterWorld::Serve(engine::Engine* engine,
                                                  const std::vector<int32_t>& drawn,
                                                  const Length& length) {
  Traffic traffic;
  size_t submitted = 0;
  Status failed;
  const std::function<void()> next = [&] {
    if (submitted == drawn.size()) return;
    Question question;
    question.adapter = "a" + std::to_string(drawn[submitted]);
    question.seed = static_cast<uint32_t>(submitted++);
    question.prompt = length.prompt;
    question.tokens = length.tokens;
    const double began = NowSeconds();
    const auto id = engine->Submit(Ask(question), [&, began](engine::Event event) {
      if (!event.status.ok()) failed = event.status;
      if (event.finish == engine::FinishReason::kNone) return;
      traffic.latency.push_back(NowSeconds() - began);
      next();
    });
    if (!id.ok()) failed = id.status();
  };
  const lora::AdapterTiers::Totals before = engine->tiers().totals();
  const double began = NowSeconds();
  for (int32_t i = 0; i < options_.clients; ++i) next();
  while (traffic.latency.size() < drawn.size() && failed.ok()) {
    engine->Step();
    if (traffic.latency.size() < drawn.size()) engine->WaitForWork();
  }
  LORICA_RETURN_IF_ERROR(failed);
  traffic.seconds = NowSeconds() - began;
  traffic.totals = engine->tiers().totals();
  traffic.totals.hits -= before.hits;
  traffic.totals.misses -= before.misses;
  traffic.totals.loads -= before.loads;
  traffic.totals.loads_from_files -= before.loads_from_files;
  traffic.totals.fetch_ns -= before.fetch_ns;
  return traffic;
}

}  // namespace lorica::bench
