#include "lorica/model/model.h"

#include <cmath>
#include <cstdio>

#include "lorica/model/model_source.h"
#include "lorica/model/weight_loader.h"

namespace lorica::model {
namespace {

using lora::Projection;

// Rows of N(0, 0.02^2)-like bf16 values. A function of (stream, row) alone, so that packing may
// read rows in any order on any thread.
class RandomRows final : public kernels::RowSource {
 public:
  RandomRows(int64_t n, int64_t k, uint64_t stream) : n_(n), k_(k), stream_(stream) {}

  int64_t n() const override { return n_; }
  int64_t k() const override { return k_; }
  void ReadRow(int64_t n, std::span<float> row) const override {
    uint64_t state = (stream_ * 0x9e3779b97f4a7c15u) ^ (static_cast<uint64_t>(n) << 20);
    for (float& value : row.first(static_cast<size_t>(k_))) {
      // splitmix64; the sum of four bytes has deviation 147.8 and is near enough to a normal.
      uint64_t z = (state += 0x9e3779b97f4a7c15u);
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      const auto bits = static_cast<uint32_t>(z >> 32);
      const int sum = static_cast<int>((bits & 255u) + ((bits >> 8) & 255u) +
                                       ((bits >> 16) & 255u) + (bits >> 24)) -
                      510;
      value = Bf16ToF32(F32ToBf16(static_cast<float>(sum) * (0.02f / 147.8f)));
    }
  }

 private:
  int64_t n_;
  int64_t k_;
  uint64_t stream_;
};

ComputeType Resolve(ComputeType wanted, const ModelConfig& config, bool is_gguf) {
  if (wanted != ComputeType::kAuto) return wanted;
  const bool narrow = is_gguf || config.checkpoint_dtype == DType::kBF16;
  return narrow ? ComputeType::kBfloat16 : ComputeType::kFloat32;
}

}  // namespace

lora::SiteShape LinearShape(const ModelConfig& config, Projection projection) {
  const int64_t width = config.width;
  const int64_t q = int64_t{config.heads} * config.head_dim;
  const int64_t kv = int64_t{config.kv_heads} * config.head_dim;
  switch (projection) {
    case Projection::kQ:
      return {width, q};
    case Projection::kK:
    case Projection::kV:
      return {width, kv};
    case Projection::kO:
      return {q, width};
    case Projection::kGate:
    case Projection::kUp:
      return {width, config.ffn_width};
    case Projection::kDown:
      return {config.ffn_width, width};
  }
  return {};
}

Result<ComputeType> ParseComputeType(std::string_view text) {
  if (text == "auto") return ComputeType::kAuto;
  if (text == "float32") return ComputeType::kFloat32;
  if (text == "bfloat16") return ComputeType::kBfloat16;
  return InvalidArgument("--dtype: expected auto, float32 or bfloat16, found \"" +
                         std::string(text) + "\"");
}

Result<WeightType> ParseWeightType(std::string_view text) {
  for (size_t i = 0; i < std::size(kWeightTypeNames); ++i) {
    if (text == kWeightTypeNames[i]) return static_cast<WeightType>(i);
  }
  return InvalidArgument("--weights: expected auto, bf16, int8, q4 or gguf, found \"" +
                         std::string(text) + "\"");
}

Result<std::unique_ptr<Model>> Model::Load(const std::string& path, const ModelOptions& options,
                                           const kernels::Backend* backend,
                                           MachineContext* context) {
  LORICA_ASSIGN_OR_RETURN(const auto source, ModelSource::Open(path));
  if (options.weight_type == WeightType::kGguf && !source->is_gguf()) {
    return InvalidArgument(path + ": --weights gguf: expected a GGUF file, found a folder");
  }
  std::unique_ptr<Model> model(new Model());
  model->config_ = source->config();
  model->backend_ = backend;
  model->compute_type_ = Resolve(options.compute_type, model->config_, source->is_gguf());
  const LoadTarget target{.backend = backend,
                          .context = context,
                          .round_to_bf16 = model->compute_type_ == ComputeType::kBfloat16 ||
                                           options.weight_type == WeightType::kBf16,
                          .weight_type = options.weight_type,
                          .merge = options.merge,
                          .progress = options.progress};
  LORICA_ASSIGN_OR_RETURN(auto loaded, LoadWeights(source.get(), target));
  model->weights_ = std::move(loaded.weights);
  model->digest_ = std::move(loaded.digest);
  return model;
}

Result<std::unique_ptr<Model>> Model::Synthetic(const ModelConfig& config,
                                                const ModelOptions& options, uint64_t seed,
                                                const kernels::Backend* backend,
                                                MachineContext* context) {
  LORICA_RETURN_IF_ERROR(CheckServed(config));
  std::unique_ptr<Model> model(new Model());
  model->config_ = config;
  model->backend_ = backend;
  model->compute_type_ = Resolve(options.compute_type, config, false);
  uint64_t stream = seed << 32;
  const auto pack_as = [&](MatrixKind kind, int64_t n, int64_t k) {
    const DType storage =
        QuantizedStorage(options.weight_type, kind, DType::kBF16).value_or(DType::kBF16);
    return backend->PackWeight(RandomRows(n, k, ++stream), storage, context);
  };
  const auto pack = [&](int64_t n, int64_t k) { return pack_as(MatrixKind::kLinear, n, k); };
  const auto ones = [](int64_t n) { return std::vector<float>(static_cast<size_t>(n), 1.0f); };

  ModelWeights& weights = model->weights_;
  LORICA_ASSIGN_OR_RETURN(weights.embedding,
                          pack_as(MatrixKind::kVocabulary, config.vocab, config.width));
  weights.final_norm = ones(config.width);
  weights.layers.resize(static_cast<size_t>(config.layers));
  for (LayerWeights& layer : weights.layers) {
    layer.input_norm = ones(config.width);
    layer.post_attention_norm = ones(config.width);
    if (config.qk_norm) layer.q_norm = layer.k_norm = ones(config.head_dim);
    for (int p = 0; p < lora::kProjections; ++p) {
      const auto projection = static_cast<Projection>(p);
      const lora::SiteShape shape = LinearShape(config, projection);
      LinearWeights& linear = layer.linear[static_cast<size_t>(p)];
      LORICA_ASSIGN_OR_RETURN(linear.weight, pack(shape.n, shape.k));
      const bool has_bias = projection <= Projection::kV   ? config.qkv_bias
                            : projection == Projection::kO ? config.o_bias
                                                           : config.mlp_bias;
      if (has_bias) linear.bias.assign(static_cast<size_t>(shape.n), 0.01f);
    }
  }
  if (!config.tied_head) {
    LORICA_ASSIGN_OR_RETURN(auto head,
                            pack_as(MatrixKind::kVocabulary, config.vocab, config.width));
    weights.head.emplace(std::move(head));
  }
  // No content to digest: the shape and the seed stand for it.
  char digest[65];
  std::snprintf(digest, sizeof(digest), "%016llx%016x%016x%016x",
                static_cast<unsigned long long>(seed), static_cast<unsigned>(config.layers),
                static_cast<unsigned>(config.width), static_cast<unsigned>(config.ffn_width));
  model->digest_ = digest;
  return model;
}

lora::SiteShape Model::Shape(lora::SiteId site) const {
  const lora::SiteSpace space = sites();
  if (!space.IsLinear(site)) return {config_.width, config_.vocab};
  return LinearShape(config_, space.ProjectionOf(site));
}

void Model::BaseRow(lora::SiteId site, int64_t n, std::span<float> row) const {
  const lora::SiteSpace space = sites();
  const kernels::Weight* weight = &weights_.embedding;
  if (site == space.Head()) weight = &weights_.head_weight();
  if (space.IsLinear(site)) {
    const auto layer = static_cast<size_t>(space.Layer(site));
    weight = &weights_.layers[layer].at(space.ProjectionOf(site)).weight;
  }
  backend_->UnpackRow(*weight, n, row);
}

}  // namespace lorica::model
