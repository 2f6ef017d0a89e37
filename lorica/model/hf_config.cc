#include "lorica/model/hf_config.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <string_view>

#include "lorica/lora/site.h"
#include "lorica/model/norm_rope.h"
#include "lorica/model/weights.h"

namespace lorica::model {
namespace {

std::string_view ArchitectureName(Family family) {
  switch (family) {
    case Family::kMistral:
      return "MistralForCausalLM";
    case Family::kQwen2:
      return "Qwen2ForCausalLM";
    case Family::kQwen3:
      return "Qwen3ForCausalLM";
    default:
      return "LlamaForCausalLM";
  }
}

// A GGUF file holds Llama 3's scaled positions as divisors; a config.json holds what they came
// from: the last divisor is the factor, and the original length is a power of two.
Result<RopeConfig> PlainRope(const ModelConfig& config) {
  RopeConfig rope = config.rope;
  if (rope.kind == RopeKind::kDefault && rope.frequency_divisors.empty()) return rope;
  const std::vector<float> wanted = InverseFrequencies(config.rope, config.head_dim);
  const auto gives_wanted = [&] {
    const std::vector<float> got = InverseFrequencies(rope, config.head_dim);
    return std::equal(got.begin(), got.end(), wanted.begin(), wanted.end(), [](float a, float b) {
      return std::abs(a - b) <= 2e-6f * b;  // some roundings
    });
  };
  if (rope.kind == RopeKind::kDefault) {
    rope.kind = RopeKind::kLlama3;
    const double last = rope.frequency_divisors.back();
    rope.factor = std::abs(last - std::round(last)) < 1e-5 ? std::round(last) : last;
    rope.frequency_divisors.clear();
    for (rope.original_max_positions = 32; rope.original_max_positions <= 1 << 20;
         rope.original_max_positions *= 2) {
      if (gives_wanted()) return rope;
    }
  }
  return Unimplemented(
      "expected plain rotary positions or Llama 3's, found others, which are not written into a "
      "config.json; serve --merge takes the file as it is");
}

}  // namespace

std::vector<NamedShape> TensorsOf(const ModelConfig& config) {
  std::vector<NamedShape> tensors = {{"model.embed_tokens.weight", {config.vocab, config.width}}};
  for (int32_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    for (const char* norm : {"input_layernorm.weight", "post_attention_layernorm.weight"}) {
      tensors.push_back({prefix + norm, {config.width}});
    }
    for (int p = 0; p < lora::kProjections; ++p) {
      const auto projection = static_cast<lora::Projection>(p);
      const bool attention = projection <= lora::Projection::kO;
      const lora::SiteShape shape = LinearShape(config, projection);
      const std::string name = prefix + (attention ? "self_attn." : "mlp.") +
                               std::string(lora::ProjectionName(projection));
      tensors.push_back({name + ".weight", {shape.n, shape.k}});
      const bool has_bias = projection <= lora::Projection::kV   ? config.qkv_bias
                            : projection == lora::Projection::kO ? config.o_bias
                                                                 : config.mlp_bias;
      if (has_bias) tensors.push_back({name + ".bias", {shape.n}});
    }
    if (!config.qk_norm) continue;
    for (const char* norm : {"self_attn.q_norm.weight", "self_attn.k_norm.weight"}) {
      tensors.push_back({prefix + norm, {config.head_dim}});
    }
  }
  tensors.push_back({"model.norm.weight", {config.width}});
  if (!config.tied_head) tensors.push_back({"lm_head.weight", {config.vocab, config.width}});
  return tensors;
}

Result<std::string> ToHfConfig(const ModelConfig& config) {
  LORICA_ASSIGN_OR_RETURN(const RopeConfig rope, PlainRope(config));
  if (config.family != Family::kQwen2 && config.qkv_bias != config.o_bias) {
    return Unimplemented(
        "expected biases on all linears of attention or on none, found them on some, which this "
        "family's config.json cannot say");
  }
  boost::json::object json;
  json["architectures"] = boost::json::array{boost::json::string(ArchitectureName(config.family))};
  json["model_type"] = FamilyName(config.family);
  json["num_hidden_layers"] = config.layers;
  json["hidden_size"] = config.width;
  json["intermediate_size"] = config.ffn_width;
  json["vocab_size"] = config.vocab;
  json["num_attention_heads"] = config.heads;
  json["num_key_value_heads"] = config.kv_heads;
  json["head_dim"] = config.head_dim;
  json["max_position_embeddings"] = config.max_positions;
  json["tie_word_embeddings"] = config.tied_head;
  json["attention_bias"] = config.qkv_bias && config.o_bias;
  json["mlp_bias"] = config.mlp_bias;
  json["rms_norm_eps"] = config.norm_epsilon;
  json["rope_theta"] = rope.theta;
  if (rope.kind == RopeKind::kLlama3) {
    json["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", rope.factor},
                            {"low_freq_factor", rope.low_freq_factor},
                            {"high_freq_factor", rope.high_freq_factor},
                            {"original_max_position_embeddings", rope.original_max_positions}};
  }
  json["hidden_act"] = "silu";
  json["torch_dtype"] = "float32";
  if (config.bos_token_id.has_value()) json["bos_token_id"] = *config.bos_token_id;
  if (!config.eos_token_ids.empty()) {
    json["eos_token_id"] =
        boost::json::array(config.eos_token_ids.begin(), config.eos_token_ids.end());
  }
  if (config.family == Family::kMistral) json["sliding_window"] = nullptr;
  return boost::json::serialize(json);
}

}  // namespace lorica::model
