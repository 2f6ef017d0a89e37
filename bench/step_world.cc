#include "bench/step_world.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "lorica/engine/assume_prompts.h"

namespace lorica::bench {
namespace {

// Their factors lie in the arena alone: a published adapter that could be fetched again gives its
// copy in host memory up, as one from a file would.
constexpr int64_t kColdBytes = int64_t{64} << 20;
constexpr int64_t kSpareBytes = int64_t{8} << 20;  // of the arena: tails of chunks

// Multiply-adds and bytes of a weight for `rows` rows.
void AddWeight(const kernels::Weight& weight, double rows, StepWorld::Work* work) {
  work->bytes += static_cast<double>(weight.data.bytes() + weight.scales.bytes());
  work->flops += 2.0 * rows * static_cast<double>(weight.k) * static_cast<double>(weight.n);
}

}  // namespace

StepWorld::StepWorld(const BenchModel* model, const Options& options)
    : base_(model), options_(options), context_(ThreadsOf({.threads = options.threads})) {}

Result<std::unique_ptr<StepWorld>> StepWorld::Make(const BenchModel* model,
                                                   const Options& options) {
  std::unique_ptr<StepWorld> world(new StepWorld(model, options));
  LORICA_RETURN_IF_ERROR(world->Prepare());
  return world;
}

Status StepWorld::Prepare() {
  // No more memory than this run uses, so that the peak says something.
  engine::EngineOptions engine;
  engine.max_num_seqs = options_.sequences;
  engine.max_num_batched_tokens = std::max(512, options_.sequences);
  engine.prefix_reuse = false;
  engine.adapter_bytes = kSpareBytes;
  engine.cold_bytes = kColdBytes;
  engine.max_adapters = static_cast<int32_t>(options_.adapters.size()) + 8;
  if (model().compute_type() == model::ComputeType::kBfloat16) engine.kv_dtype = DType::kBF16;
  const int64_t pages = engine::KvLayoutOf(model().config(), engine.kv_dtype).PageBytes();
  engine.kv_bytes =
      options_.sequences * (int64_t{options_.positions} / kernels::kPageTokens + 2) * pages;
  const lora::TilePacker& packer = model().backend().tile_packer();
  for (const RandomAdapterSpec& spec : options_.adapters) {
    int64_t bytes = 0;
    for (int32_t i = 0; i < model().sites().layers * lora::kProjections; ++i) {
      const lora::Projection projection = model().sites().ProjectionOf({i});
      if (!ActsOn(spec, projection)) continue;
      const lora::SiteShape shape = model().Shape({i});
      bytes += packer.TileBytes({shape.k, shape.n, DType::kBF16}) *
               lora::TileCount(spec.rank, packer.rank_quantum());
    }
    tile_bytes_.push_back(bytes);
    // Cold for as long as it is packed.
    engine.cold_bytes = std::max(engine.cold_bytes, 2 * bytes);
    engine.adapter_bytes += bytes + bytes / 50;
  }
  LORICA_ASSIGN_OR_RETURN(engine_,
                          engine::Engine::Create(base_->model.get(), nullptr, engine, &context_));
  for (size_t i = 0; i < options_.adapters.size(); ++i) {
    LORICA_ASSIGN_OR_RETURN(auto adapter,
                            RandomAdapter(model(), options_.adapters[i], &context_.ledger));
    LORICA_RETURN_IF_ERROR(
        engine_->PublishAdapter(std::to_string(i), {"made", {}}, std::move(adapter)));
  }
  const auto hot = static_cast<size_t>(engine_->tiers().totals().hot);
  if (hot != options_.adapters.size()) {
    return Internal("only " + std::to_string(hot) + " of " +
                    std::to_string(options_.adapters.size()) + " adapters found room");
  }
  LORICA_ASSIGN_OR_RETURN(Floor floor, Floor::Create(&context_.pool, model().backend().name()));
  floor_ = std::make_unique<Floor>(std::move(floor));
  return OkStatus();
}

Status StepWorld::Submit(int32_t prompt, int32_t tokens, const std::string& adapter) {
  engine::Request request;
  for (int32_t t = 0; t < prompt; ++t) {
    request.prompt.push_back((submitted_ * 7919 + t * 104729) % 256);
  }
  ++submitted_;
  request.adapter = adapter;
  request.sampling.temperature = 0.0;
  request.sampling.ignore_eos = true;
  request.sampling.max_tokens = tokens;
  return engine_
      ->Submit(std::move(request),
               [this](const engine::Event& event) {
                 if (!event.status.ok()) failed_ = event.status;
               })
      .status();
}

template <class Seen>
Status StepWorld::RunSteps(const Seen& seen) {
  bool more = true;
  while (more && engine_->WaitForWork()) {
    context_.trace.Reset();
    const double begin = NowSeconds();
    more = engine_->Step();
    seen(NowSeconds() - begin);
  }
  return failed_;
}

Result<std::vector<double>> StepWorld::Decode(const Company& company, StepBreakdown* breakdown) {
  for (int32_t i = 0; i < company.sequences; ++i) {
    const int32_t adapter =
        company.adapters == 0 ? 0 : company.first_adapter + i % company.adapters * company.stride;
    LORICA_RETURN_IF_ERROR(Submit(company.context, company.steps + 1,
                                  company.adapters == 0 ? "" : std::to_string(adapter)));
  }
  engine::AssumePromptsComputed(engine_.get());
  std::vector<double> seconds;
  int32_t step = 0;
  LORICA_RETURN_IF_ERROR(RunSteps([&](double took) {
    if (step++ == 0) return;  // fetches what the pages' filling has put out of the caches
    seconds.push_back(took);
    if (breakdown != nullptr) breakdown->Add(took, context_.trace);
  }));
  return seconds;
}

Result<double> StepWorld::Prefill(int32_t tokens, PrefillOn on) {
  LORICA_RETURN_IF_ERROR(Submit(tokens, 1, on == PrefillOn::kAdapter ? "0" : ""));
  double seconds = 0.0;
  LORICA_RETURN_IF_ERROR(RunSteps([&](double took) { seconds += took; }));
  return seconds;
}

bool StepWorld::has_flops() const {
  const kernels::Weight& any = model().weights().layers.front().at(lora::Projection::kQ).weight;
  return any.scales.bytes() == 0;
}

double StepWorld::KvBytes(const Company& company) const {
  const kernels::KvLayout layout =
      engine::KvLayoutOf(model().config(), engine_->options().kv_dtype);
  return company.sequences * (company.context + company.steps / 2.0) *
         static_cast<double>(layout.PageBytes()) / kernels::kPageTokens;
}

double StepWorld::AdapterBytes(const Company& company) const {
  double bytes = 0.0;
  for (int32_t i = 0; i < std::min(company.adapters, company.sequences); ++i) {
    bytes += static_cast<double>(
        tile_bytes_[static_cast<size_t>(company.first_adapter + i * company.stride)]);
  }
  return bytes;
}

StepWorld::Work StepWorld::DecodeWork(const Company& company) const {
  const model::ModelConfig& config = model().config();
  Work work;
  const double rows = company.sequences;
  for (const model::LayerWeights& layer : model().weights().layers) {
    for (const model::LinearWeights& linear : layer.linear) AddWeight(linear.weight, rows, &work);
  }
  AddWeight(model().weights().head_weight(), rows, &work);
  const double positions = company.context + company.steps / 2.0;
  work.flops += 4.0 * rows * positions * config.heads * config.head_dim * config.layers;
  if (company.adapters > 0) {
    // Of bf16 factors 2 bytes an element, and 2 flops for each row that meets it.
    work.flops += AdapterBytes(company) * rows / std::min(company.adapters, company.sequences);
  }
  work.bytes += KvBytes(company) + AdapterBytes(company);
  if (!has_flops()) work.flops = 0.0;
  return work;
}

StepWorld::Work StepWorld::PrefillWork(int32_t tokens, PrefillOn on) const {
  using lora::Projection;
  const model::ModelConfig& config = model().config();
  Work work;
  // Of the last layer only the last token goes on after K and V.
  for (int32_t i = 0; i < config.layers; ++i) {
    const model::LayerWeights& layer = model().weights().layers[static_cast<size_t>(i)];
    const bool last = i + 1 == config.layers;
    for (int32_t p = 0; p < lora::kProjections; ++p) {
      const auto projection = static_cast<Projection>(p);
      const bool all = !last || projection == Projection::kK || projection == Projection::kV;
      AddWeight(layer.at(projection).weight, all ? tokens : 1.0, &work);
    }
    const double pairs = last ? tokens : 0.5 * tokens * (tokens + 1.0);
    work.flops += 4.0 * pairs * config.heads * config.head_dim;
  }
  AddWeight(model().weights().head_weight(), 1.0, &work);
  if (on == PrefillOn::kAdapter) {
    const auto bytes = static_cast<double>(tile_bytes_.front());
    work.bytes += bytes;
    work.flops += bytes * tokens * (config.layers - 1) / config.layers;
  }
  if (!has_flops()) work.flops = 0.0;
  return work;
}

double StepWorld::FloorSeconds(const Work& work) const {
  return std::max(work.bytes / floor_->ReadRate(),
                  work.flops / floor_->MultiplyRate(model().activation_type()));
}

std::string StepWorld::Rates() const {
  const bool dot = floor_->has_dot() && model().activation_type() == kernels::ActivationType::kBf16;
  char text[96];
  std::snprintf(text, sizeof(text), "read %.1f GB/s, %s %.0f GFLOP/s", floor_->ReadRate() / 1e9,
                dot ? "bf16 dot" : "f32 multiply-add",
                floor_->MultiplyRate(model().activation_type()) / 1e9);
  return text;
}

void StepWorld::PrintHead(std::FILE* out) const {
  PrintMachine(context_.pool.threads(), model().backend().name(), out);
}

std::string StepWorld::Machine() const {
  return MachineLine(context_.pool.threads(), model().backend().name());
}

void StepWorld::PrintMemory(std::FILE* out) const {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const double peak = static_cast<double>(usage.ru_maxrss) * 1024.0;
  double accounted = 0.0;
  const auto bytes = [&](int tag) {
    const auto purpose = static_cast<MemoryTag>(tag);
    return static_cast<double>(context_.ledger.bytes(purpose) +
                               base_->context->ledger.bytes(purpose));
  };
  for (int tag = 0; tag < kMemoryTags; ++tag) accounted += bytes(tag);
  std::fprintf(out,
               "peak memory %.0f MB, %.2f x what is accounted by purpose (%.0f MB):", peak / 1e6,
               peak / accounted, accounted / 1e6);
  for (int tag = 0; tag < kMemoryTags; ++tag) {
    std::fprintf(out, " %s %.0f", std::string(MemoryTagName(static_cast<MemoryTag>(tag))).c_str(),
                 bytes(tag) / 1e6);
  }
  std::fprintf(out, "\n");
}

}  // namespace lorica::bench
