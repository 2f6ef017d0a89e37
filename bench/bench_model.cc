#include "bench/bench_model.h"

#include <algorithm>
#include <utility>

#include "bench/timing.h"
#include "lorica/kernels/open_backend.h"

namespace lorica::bench {
namespace {

constexpr uint64_t kSeed = 20;

model::ModelConfig Synthetic1B() {
  model::ModelConfig config;
  config.layers = 16;
  config.width = 2048;
  config.ffn_width = 8192;
  config.vocab = 128000;
  config.heads = 32;
  config.kv_heads = 8;
  config.head_dim = 64;
  config.rope.theta = 500000.0;
  return config;
}

model::ModelConfig SmolLm2() {
  model::ModelConfig config;
  config.layers = 30;
  config.width = 576;
  config.ffn_width = 1536;
  config.vocab = 49152;
  config.heads = 9;
  config.kv_heads = 3;
  config.head_dim = 64;
  config.rope.theta = 100000.0;
  return config;
}

}  // namespace

Result<model::ModelConfig> ModelShape(std::string_view name) {
  if (name != "1.2b" && name != "smollm2") {
    return InvalidArgument("shape '" + std::string(name) + "': expected 1.2b or smollm2");
  }
  model::ModelConfig config = name == "1.2b" ? Synthetic1B() : SmolLm2();
  config.family = model::Family::kLlama;
  config.max_positions = 8192;
  config.tied_head = true;
  config.score_scale = 0.125;
  config.layer.resize(static_cast<size_t>(config.layers));
  config.checkpoint_dtype = DType::kBF16;
  return config;
}

Result<BenchModel> OpenBenchModel(const BenchModelOptions& options) {
  BenchModel opened;
  opened.context = std::make_unique<MachineContext>(ThreadsOf({}));
  LORICA_ASSIGN_OR_RETURN(opened.backend, kernels::OpenCpuBackend());
  model::ModelOptions load;
  LORICA_ASSIGN_OR_RETURN(load.compute_type, model::ParseComputeType(options.dtype));
  LORICA_ASSIGN_OR_RETURN(load.weight_type, model::ParseWeightType(options.weights));
  if (options.path.empty()) {
    LORICA_ASSIGN_OR_RETURN(const model::ModelConfig config, ModelShape(options.shape));
    LORICA_ASSIGN_OR_RETURN(
        opened.model,
        model::Model::Synthetic(config, load, kSeed, opened.backend.get(), opened.context.get()));
  } else {
    LORICA_ASSIGN_OR_RETURN(
        opened.model,
        model::Model::Load(options.path, load, opened.backend.get(), opened.context.get()));
  }
  return opened;
}

bool ActsOn(const RandomAdapterSpec& spec, lora::Projection projection) {
  return spec.projections.empty() || std::find(spec.projections.begin(), spec.projections.end(),
                                               projection) != spec.projections.end();
}

Result<std::shared_ptr<const lora::Adapter>> RandomAdapter(const model::Model& model,
                                                           const RandomAdapterSpec& spec,
                                                           MemoryLedger* ledger) {
  const lora::SiteSpace sites = model.sites();
  lora::Adapter::Content content;
  int64_t elements = 0;
  for (int32_t i = 0; i < sites.layers * lora::kProjections; ++i) {
    lora::SiteFactors factors;
    factors.site = {i};
    if (!ActsOn(spec, sites.ProjectionOf(factors.site))) continue;
    factors.rank = spec.rank;
    factors.shape = model.Shape(factors.site);
    elements += spec.rank * (factors.shape.k + factors.shape.n);
    content.sites.push_back(factors);
  }
  LORICA_ASSIGN_OR_RETURN(content.storage,
                          Buffer::Allocate(elements * 2, MemoryTag::kAdapterCold, ledger));
  uint32_t state = spec.seed * 2654435761u + 1u;
  for (uint16_t& bits : content.storage.as<uint16_t>()) {
    state = state * 1664525u + 1013904223u;
    bits = F32ToBf16((static_cast<float>(state >> 8) * 0x1p-24f - 0.5f) * 0.05f);
  }
  const std::byte* next = content.storage.data();
  for (lora::SiteFactors& factors : content.sites) {
    factors.a = {next, DType::kBF16};
    next += factors.rank * factors.shape.k * 2;
    factors.b = {next, DType::kBF16};
    next += factors.rank * factors.shape.n * 2;
  }
  content.digest = "bench-" + std::to_string(spec.rank) + "-" + std::to_string(spec.seed);
  return std::make_shared<const lora::Adapter>(std::move(content));
}

}  // namespace lorica::bench
