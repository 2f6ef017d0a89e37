// ModelConfig from GGUF metadata (keys: the GGUF specification, "LLM" section).
#include <cmath>
#include <cstring>

#include "lorica/formats/gguf.h"
#include "lorica/model/config.h"

namespace lorica::model {
namespace {

using formats::GgufFile;

class Keys {
 public:
  Keys(const GgufFile& file, std::string architecture)
      : file_(file), architecture_(std::move(architecture)) {}

  std::string Name(const std::string& key) const { return architecture_ + "." + key; }

  Result<int64_t> Int(const std::string& key, int64_t max) const {
    LORICA_ASSIGN_OR_RETURN(const auto value, OptionalInt(key, max));
    if (value.has_value()) return *value;
    return InvalidArgument(file_.name() + ": expected the key " + Name(key) + ", found none");
  }
  Result<std::optional<int64_t>> OptionalInt(const std::string& key, int64_t max) const {
    LORICA_ASSIGN_OR_RETURN(const auto value, file_.FindInt(Name(key)));
    if (value.has_value() && (*value < 1 || *value > max)) {
      return InvalidArgument(file_.name() + ": " + Name(key) + ": expected 1 to " +
                             std::to_string(max) + ", found " + std::to_string(*value));
    }
    return value;
  }
  Result<std::optional<float>> Float(const std::string& key) const {
    return file_.FindF32(Name(key));
  }
  Result<std::optional<std::string>> String(const std::string& key) const {
    return file_.FindString(Name(key));
  }

 private:
  const GgufFile& file_;
  std::string architecture_;
};

Result<Family> FamilyOf(const std::string& name, const std::string& architecture) {
  // Mistral files say llama: the two are one network.
  if (architecture == "llama") return Family::kLlama;
  if (architecture == "qwen2") return Family::kQwen2;
  if (architecture == "qwen3") return Family::kQwen3;
  if (architecture == "smollm3") return Family::kSmolLm3;
  if (architecture == "gemma2") return Family::kGemma2;
  if (architecture == "gemma3") return Family::kGemma3;
  if (architecture == "phi3") return Family::kPhi3;
  if (architecture == "granite") return Family::kGranite;
  return Unimplemented(name + ": expected general.architecture llama, qwen2 or qwen3, found \"" +
                       architecture + "\"");
}

Status ReadSizes(const GgufFile& file, const Keys& keys, ModelConfig* config) {
  constexpr int64_t kSize = 1 << 24;
  constexpr int64_t kCount = 1 << 16;
  LORICA_ASSIGN_OR_RETURN(const int64_t layers, keys.Int("block_count", kCount));
  LORICA_ASSIGN_OR_RETURN(const int64_t width, keys.Int("embedding_length", kSize));
  LORICA_ASSIGN_OR_RETURN(const int64_t ffn, keys.Int("feed_forward_length", kSize));
  LORICA_ASSIGN_OR_RETURN(const int64_t heads, keys.Int("attention.head_count", kCount));
  LORICA_ASSIGN_OR_RETURN(const auto kv, keys.OptionalInt("attention.head_count_kv", kCount));
  LORICA_ASSIGN_OR_RETURN(const auto key_length, keys.OptionalInt("attention.key_length", kCount));
  LORICA_ASSIGN_OR_RETURN(const auto value_length,
                          keys.OptionalInt("attention.value_length", kCount));
  LORICA_ASSIGN_OR_RETURN(config->max_positions, keys.Int("context_length", int64_t{1} << 31));
  if (!key_length.has_value() && width % heads != 0) {
    return InvalidArgument(file.name() + ": expected " + keys.Name("embedding_length") +
                           " to be a multiple of the head count " + std::to_string(heads) +
                           ", found " + std::to_string(width));
  }
  config->layers = static_cast<int32_t>(layers);
  config->width = static_cast<int32_t>(width);
  config->ffn_width = static_cast<int32_t>(ffn);
  config->heads = static_cast<int32_t>(heads);
  config->kv_heads = static_cast<int32_t>(kv.value_or(heads));
  config->head_dim = static_cast<int32_t>(key_length.value_or(width / heads));
  config->layer.assign(static_cast<size_t>(layers), LayerConfig());
  if (value_length.value_or(config->head_dim) != config->head_dim) {
    return Unimplemented(file.name() + ": expected attention.value_length to be " +
                         std::to_string(config->head_dim) + ", found " +
                         std::to_string(*value_length));
  }
  if (config->heads % config->kv_heads != 0 || config->head_dim % 2 != 0) {
    return InvalidArgument(file.name() + ": expected the head count to be a multiple of the " +
                           "key-value head count and an even key length, found " +
                           std::to_string(config->heads) + ", " + std::to_string(config->kv_heads) +
                           " and " + std::to_string(config->head_dim));
  }
  LORICA_ASSIGN_OR_RETURN(const auto experts, file.FindInt(keys.Name("expert_count")));
  if (experts.value_or(0) != 0) {
    return Unimplemented(file.name() + ": expected a model without experts, found " +
                         keys.Name("expert_count") + " " + std::to_string(*experts));
  }
  return OkStatus();
}

Status ReadRope(const GgufFile& file, const Keys& keys, ModelConfig* config) {
  RopeConfig& rope = config->rope;
  LORICA_ASSIGN_OR_RETURN(const auto theta, keys.Float("rope.freq_base"));
  rope.theta = theta.value_or(10000.0f);
  if (!(rope.theta > 1.0 && std::isfinite(rope.theta))) {
    return InvalidArgument(file.name() + ": " + keys.Name("rope.freq_base") +
                           ": expected more than 1, found " + std::to_string(rope.theta));
  }
  LORICA_ASSIGN_OR_RETURN(const auto dims,
                          keys.OptionalInt("rope.dimension_count", config->head_dim));
  rope.partial_rotary_factor =
      static_cast<double>(dims.value_or(config->head_dim)) / config->head_dim;
  LORICA_ASSIGN_OR_RETURN(const auto type, keys.String("rope.scaling.type"));
  LORICA_ASSIGN_OR_RETURN(const auto factor, keys.Float("rope.scaling.factor"));
  LORICA_ASSIGN_OR_RETURN(const auto old_factor, keys.Float("rope.scale_linear"));
  const std::string kind = type.value_or(old_factor.has_value() ? "linear" : "none");
  if (kind == "linear") {
    rope.kind = RopeKind::kLinear;
    rope.factor = factor.value_or(old_factor.value_or(1.0f));
    if (!(rope.factor > 0.0 && std::isfinite(rope.factor))) {
      return InvalidArgument(file.name() + ": " + keys.Name("rope.scaling.factor") +
                             ": expected a positive number, found " + std::to_string(rope.factor));
    }
  } else if (kind == "yarn") {
    rope.kind = RopeKind::kYarn;
  } else if (kind == "longrope") {
    rope.kind = RopeKind::kLongrope;
  } else if (kind != "none") {
    return Unimplemented(file.name() + ": expected rope.scaling.type none or linear, found \"" +
                         kind + "\"");
  }

  // Llama 3.1's scaling comes as a divisor for each frequency.
  const TensorView* factors = file.FindTensor("rope_freqs.weight");
  if (factors == nullptr) return OkStatus();
  const Shape expected = {config->head_dim / 2};
  if (factors->dtype != DType::kF32 || factors->shape != expected) {
    return InvalidArgument(
        file.name() + ": rope_freqs.weight: expected F32 " + ShapeToString(expected) + ", found " +
        std::string(DTypeName(factors->dtype)) + " " + ShapeToString(factors->shape));
  }
  rope.frequency_divisors.resize(static_cast<size_t>(expected[0]));
  std::memcpy(rope.frequency_divisors.data(), factors->data,
              rope.frequency_divisors.size() * sizeof(float));
  for (const float divisor : rope.frequency_divisors) {
    if (divisor > 0.0f && std::isfinite(divisor)) continue;
    return InvalidArgument(file.name() + ": rope_freqs.weight: expected positive numbers, found " +
                           std::to_string(divisor));
  }
  return OkStatus();
}

Status ReadTokenIds(const GgufFile& file, ModelConfig* config) {
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id", "tokenizer.ggml.bos_token_id"}) {
    LORICA_ASSIGN_OR_RETURN(const auto id, file.FindInt(key));
    if (!id.has_value()) continue;
    if (*id < 0 || *id >= config->vocab) {
      return InvalidArgument(file.name() + ": " + key + ": expected 0 to " +
                             std::to_string(config->vocab - 1) + ", found " + std::to_string(*id));
    }
    if (std::string_view(key).ends_with("bos_token_id")) {
      config->bos_token_id = static_cast<int32_t>(*id);
    } else {
      config->eos_token_ids.push_back(static_cast<int32_t>(*id));
    }
  }
  return OkStatus();
}

}  // namespace

Result<ModelConfig> ReadGgufConfig(const GgufFile& file) {
  LORICA_ASSIGN_OR_RETURN(const auto architecture, file.FindString("general.architecture"));
  if (!architecture.has_value()) {
    return InvalidArgument(file.name() + ": expected the key general.architecture, found none");
  }
  LORICA_ASSIGN_OR_RETURN(const auto type, file.FindString("general.type"));
  if (type.has_value() && *type != "model") {
    return InvalidArgument(file.name() + ": expected general.type model, found \"" + *type + "\"");
  }
  ModelConfig config;
  LORICA_ASSIGN_OR_RETURN(config.family, FamilyOf(file.name(), *architecture));
  const Keys keys(file, *architecture);
  LORICA_RETURN_IF_ERROR(ReadSizes(file, keys, &config));

  const TensorView* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return InvalidArgument(file.name() + ": expected the tensor token_embd.weight [vocabulary, " +
                           std::to_string(config.width) + "], found " +
                           (embedding == nullptr ? "none" : ShapeToString(embedding->shape)));
  }
  if (embedding->shape[0] < 1 || embedding->shape[0] > 1 << 24) {
    return OutOfRange(file.name() + ": token_embd.weight: expected 1 to " +
                      std::to_string(1 << 24) + " rows, found " +
                      std::to_string(embedding->shape[0]));
  }
  config.vocab = static_cast<int32_t>(embedding->shape[0]);
  config.checkpoint_dtype = embedding->dtype;
  LORICA_ASSIGN_OR_RETURN(const auto* tokens, file.FindStringArray("tokenizer.ggml.tokens"));
  if (tokens != nullptr && static_cast<int64_t>(tokens->size()) > config.vocab) {
    return InvalidArgument(file.name() + ": token_embd.weight: expected a row for each of the " +
                           std::to_string(tokens->size()) + " tokens, found " +
                           std::to_string(config.vocab));
  }
  config.tied_head = file.FindTensor("output.weight") == nullptr;
  config.qkv_bias = file.FindTensor("blk.0.attn_q.bias") != nullptr;
  config.o_bias = file.FindTensor("blk.0.attn_output.bias") != nullptr;
  config.mlp_bias = file.FindTensor("blk.0.ffn_up.bias") != nullptr;
  config.qk_norm = config.family == Family::kQwen3;

  LORICA_ASSIGN_OR_RETURN(const auto epsilon, keys.Float("attention.layer_norm_rms_epsilon"));
  if (!epsilon.has_value() || !(*epsilon >= 0.0f && *epsilon < 1.0f)) {
    return InvalidArgument(file.name() + ": " + keys.Name("attention.layer_norm_rms_epsilon") +
                           ": expected a small positive number, found " +
                           (epsilon.has_value() ? std::to_string(*epsilon) : "none"));
  }
  config.norm_epsilon = *epsilon;
  config.score_scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
  LORICA_RETURN_IF_ERROR(ReadRope(file, keys, &config));
  LORICA_ASSIGN_OR_RETURN(const auto window, file.FindInt(keys.Name("attention.sliding_window")));
  if (window.value_or(0) > 0 && *window < config.max_positions) {
    for (LayerConfig& layer : config.layer) layer.sliding_window = *window;
  }
  LORICA_RETURN_IF_ERROR(ReadTokenIds(file, &config));
  return config;
}

}  // namespace lorica::model
