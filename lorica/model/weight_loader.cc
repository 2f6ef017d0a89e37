#include "lorica/model/weight_loader.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <future>
#include <optional>
#include <vector>

#include "lorica/formats/sha256.h"
#include "lorica/model/merged_rows.h"

namespace lorica::model {
namespace {

using lora::Projection;

bool FitsBf16(float value) { return (std::bit_cast<uint32_t>(value) & 0xffffu) == 0; }
bool FitsF16(float value) {
  // A NaN would differ from itself; it is refused by the loader anyway.
  return std::bit_cast<uint32_t>(F16ToF32(F32ToF16(value))) == std::bit_cast<uint32_t>(value);
}

void DigestConfig(const ModelConfig& config, formats::Sha256* sha) {
  sha->UpdateSized("lorica base 1");
  sha->UpdateSized(FamilyName(config.family));
  for (const int64_t value :
       {int64_t{config.layers}, int64_t{config.width}, int64_t{config.ffn_width},
        int64_t{config.vocab}, int64_t{config.heads}, int64_t{config.kv_heads},
        int64_t{config.head_dim}, int64_t{config.tied_head}, int64_t{config.qkv_bias},
        int64_t{config.o_bias}, int64_t{config.mlp_bias}, int64_t{config.qk_norm},
        static_cast<int64_t>(config.rope.kind), config.rope.original_max_positions}) {
    sha->UpdateU64(static_cast<uint64_t>(value));
  }
  for (const double value : {config.norm_epsilon, config.score_scale, config.rope.theta,
                             config.rope.factor, config.rope.low_freq_factor,
                             config.rope.high_freq_factor, config.rope.partial_rotary_factor}) {
    sha->UpdateU64(std::bit_cast<uint64_t>(value));
  }
  sha->UpdateU64(config.rope.frequency_divisors.size());
  for (const float divisor : config.rope.frequency_divisors) {
    sha->UpdateU64(std::bit_cast<uint32_t>(divisor));
  }
}

class Loader {
 public:
  Loader(ModelSource* source, const LoadTarget& target)
      : source_(source), target_(target), config_(source->config()) {
    tensors_ = 3 + int64_t{config_.layers} * (lora::kProjections + 2);
    DigestConfig(config_, &sha_);
  }

  Result<LoadedWeights> Run() {
    LoadedWeights loaded;
    ModelWeights& weights = loaded.weights;
    weights.layers.resize(static_cast<size_t>(config_.layers));
    LORICA_ASSIGN_OR_RETURN(weights.embedding,
                            Matrix("model.embed_tokens.weight", config_.vocab, config_.width));
    for (int32_t layer = 0; layer < config_.layers; ++layer) {
      LORICA_RETURN_IF_ERROR(Layer(layer, &weights.layers[static_cast<size_t>(layer)]));
    }
    LORICA_ASSIGN_OR_RETURN(weights.final_norm, Vector("model.norm.weight", config_.width));
    LORICA_RETURN_IF_ERROR(Head(&weights));
    LORICA_RETURN_IF_ERROR(source_->CheckAllTaken());
    if (target_.weight_type != WeightType::kAuto) {
      sha_.UpdateSized("weights");
      sha_.UpdateSized(kWeightTypeNames[static_cast<size_t>(target_.weight_type)]);
    }
    if (target_.merge != nullptr) {
      sha_.UpdateSized("merged");
      sha_.UpdateSized(target_.merge->digest());
    }
    loaded.digest = formats::HexDigest(sha_.Finish());
    return loaded;
  }

 private:
  Status Layer(int32_t layer, LayerWeights* out) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    LORICA_ASSIGN_OR_RETURN(out->input_norm,
                            Vector(prefix + "input_layernorm.weight", config_.width));
    LORICA_ASSIGN_OR_RETURN(out->post_attention_norm,
                            Vector(prefix + "post_attention_layernorm.weight", config_.width));
    for (int p = 0; p < lora::kProjections; ++p) {
      const auto projection = static_cast<Projection>(p);
      const bool attention = projection <= Projection::kO;
      const lora::SiteShape shape = LinearShape(config_, projection);
      const std::string name = prefix + (attention ? "self_attn." : "mlp.") +
                               std::string(lora::ProjectionName(projection));
      LinearWeights& linear = out->linear[static_cast<size_t>(p)];
      const lora::SiteSpace sites{config_.layers};
      const lora::SiteFactors* merge =
          target_.merge == nullptr ? nullptr
                                   : FindFactors(*target_.merge, sites.Linear(layer, projection));
      LORICA_ASSIGN_OR_RETURN(linear.weight, Matrix(name + ".weight", shape.n, shape.k, merge));
      const bool has_bias = projection <= Projection::kV   ? config_.qkv_bias
                            : projection == Projection::kO ? config_.o_bias
                                                           : config_.mlp_bias;
      if (!has_bias) continue;
      LORICA_ASSIGN_OR_RETURN(linear.bias, Vector(name + ".bias", shape.n));
    }
    if (!config_.qk_norm) return OkStatus();
    LORICA_ASSIGN_OR_RETURN(out->q_norm,
                            Vector(prefix + "self_attn.q_norm.weight", config_.head_dim));
    LORICA_ASSIGN_OR_RETURN(out->k_norm,
                            Vector(prefix + "self_attn.k_norm.weight", config_.head_dim));
    return OkStatus();
  }

  Status Head(ModelWeights* weights) {
    const std::string name = "lm_head.weight";
    if (!config_.tied_head) {
      LORICA_ASSIGN_OR_RETURN(auto head, Matrix(name, config_.vocab, config_.width));
      weights->head.emplace(std::move(head));
      return OkStatus();
    }
    if (!source_->Has(name)) return OkStatus();
    // Some writers store a tied head again; it must then be the embedding.
    const Shape shape = {config_.vocab, config_.width};
    LORICA_ASSIGN_OR_RETURN(const auto head, source_->Take(name, shape));
    LORICA_ASSIGN_OR_RETURN(const auto table, source_->Take("model.embed_tokens.weight", shape));
    std::vector<float> a(static_cast<size_t>(config_.width));
    std::vector<float> b(a.size());
    for (int64_t n = 0; n < config_.vocab; ++n) {
      head->ReadRow(n, a);
      table->ReadRow(n, b);
      if (std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0) continue;
      return InvalidArgument(source_->path() + ": expected " + name +
                             " to equal the embedding, as tie_word_embeddings says, found row " +
                             std::to_string(n) + " to differ");
    }
    source_->Release(head->view());
    source_->Release(table->view());
    return OkStatus();
  }

  Result<kernels::Weight> Matrix(const std::string& name, int64_t n, int64_t k,
                                 const lora::SiteFactors* merge = nullptr) {
    LORICA_ASSIGN_OR_RETURN(const auto rows, source_->Take(name, {n, k}));
    // The digest walks the same pages while the pool packs them.
    auto digested = std::async(std::launch::async, [&] { Digest(name, rows->view()); });
    std::optional<MergedRows> merged;
    if (merge != nullptr) merged.emplace(rows.get(), *merge);
    const DType storage = Storage(name, *rows, merge);
    const kernels::RowSource& source =
        merged ? static_cast<const kernels::RowSource&>(*merged) : *rows;
    auto weight = target_.backend->PackWeight(source, storage, target_.context);
    digested.wait();
    if (!weight.ok()) return weight.status().WithContext(source_->path() + ": " + name);
    LORICA_RETURN_IF_ERROR(Finish(name, *rows));
    return weight;
  }

  DType Storage(const std::string& name, const TensorRows& rows,
                const lora::SiteFactors* merge) const {
    const bool is_linear = name.starts_with("model.layers.");
    const MatrixKind kind = is_linear ? MatrixKind::kLinear : MatrixKind::kVocabulary;
    // What is merged is no longer what the file's blocks hold.
    const DType stored = merge != nullptr ? DType::kF32 : rows.view().dtype;
    if (const auto quantized = QuantizedStorage(target_.weight_type, kind, stored)) {
      return *quantized;
    }
    if (target_.round_to_bf16) return DType::kBF16;
    return merge != nullptr ? DType::kF32 : ExactStorage(rows, target_.context);
  }

  Result<std::vector<float>> Vector(const std::string& name, int64_t n) {
    LORICA_ASSIGN_OR_RETURN(const auto rows, source_->Take(name, {n}));
    std::vector<float> values(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) rows->ReadRow(i, {&values[static_cast<size_t>(i)], 1});
    Digest(name, rows->view());
    LORICA_RETURN_IF_ERROR(Finish(name, *rows));
    return values;
  }

  void Digest(const std::string& name, const TensorView& view) {
    sha_.UpdateSized(name);
    sha_.UpdateSized(DTypeName(view.dtype));
    sha_.UpdateSized(ShapeToString(view.shape));
    sha_.Update({view.data, static_cast<size_t>(view.bytes())});
  }

  Status Finish(const std::string& name, const TensorRows& rows) {
    source_->Release(rows.view());
    ++done_;
    if (target_.progress) {
      target_.progress(std::min(1.0, static_cast<double>(done_) / static_cast<double>(tensors_)));
    }
    if (!rows.saw_non_finite()) return OkStatus();
    return InvalidArgument(source_->path() + ": " + name +
                           ": expected finite numbers, found a NaN or an infinity");
  }

  ModelSource* source_;
  const LoadTarget& target_;
  const ModelConfig& config_;
  formats::Sha256 sha_;
  int64_t tensors_ = 0;
  int64_t done_ = 0;
};

}  // namespace

std::optional<DType> QuantizedStorage(WeightType type, MatrixKind kind, DType stored) {
  switch (type) {
    case WeightType::kInt8:
      return DType::kI8;
    case WeightType::kQ4:
      return kind == MatrixKind::kVocabulary ? DType::kI8 : DType::kQ4_1;
    case WeightType::kGguf:
      if (BlockElements(stored) > 1) return stored;
      return std::nullopt;
    case WeightType::kAuto:
    case WeightType::kBf16:
      break;
  }
  return std::nullopt;
}

DType ExactStorage(const TensorRows& rows, MachineContext* context) {
  const DType stored = rows.view().dtype;
  if (stored == DType::kBF16) return DType::kBF16;
  // A product of a scale and a small integer needs more bits than either half type has.
  if (BlockElements(stored) > 1) return DType::kF32;
  std::atomic<bool> bf16{true};
  std::atomic<bool> f16{true};
  context->pool.Run([&](const TeamMember& member) {
    std::vector<float> row(static_cast<size_t>(rows.k()));
    const IndexRange range = SplitRange(rows.n(), member);
    for (int64_t n = range.begin; n < range.end; ++n) {
      if (!bf16.load(std::memory_order_relaxed) && !f16.load(std::memory_order_relaxed)) return;
      rows.ReadRow(n, row);
      bool all_bf16 = true;
      for (const float value : row) all_bf16 &= FitsBf16(value);
      if (!all_bf16) bf16.store(false, std::memory_order_relaxed);
      if (stored == DType::kF16 || !f16.load(std::memory_order_relaxed)) continue;
      for (const float value : row) {
        if (FitsF16(value)) continue;
        f16.store(false, std::memory_order_relaxed);
        break;
      }
    }
  });
  if (bf16.load()) return DType::kBF16;
  return f16.load() ? DType::kF16 : DType::kF32;
}

Result<LoadedWeights> LoadWeights(ModelSource* source, const LoadTarget& target) {
  return Loader(source, target).Run();
}

}  // namespace lorica::model
