#include "lorica/model/config.h"

#include <algorithm>
#include <cmath>

#include "lorica/formats/json.h"
#include "lorica/model/config_rope.h"

namespace lorica::model {
namespace {

using formats::IntRange;
using formats::JsonObjectReader;

// What transformers' class assumes where config.json is silent.
struct FamilyDefaults {
  std::string_view model_type;
  Family family;
  bool tied_head;
  double theta;
  int64_t max_positions;
  int64_t head_dim;  // 0: hidden_size / num_attention_heads
  std::string_view activation;
};
constexpr FamilyDefaults kFamilies[] = {
    {"llama", Family::kLlama, false, 1e4, 2048, 0, "silu"},
    {"mistral", Family::kMistral, false, 1e4, 131072, 0, "silu"},
    {"qwen2", Family::kQwen2, false, 1e4, 32768, 0, "silu"},
    {"qwen3", Family::kQwen3, false, 1e4, 32768, 128, "silu"},
    {"smollm3", Family::kSmolLm3, true, 2e6, 32768, 0, "silu"},
    {"gemma2", Family::kGemma2, true, 1e4, 8192, 256, "gelu_pytorch_tanh"},
    {"gemma3_text", Family::kGemma3, true, 1e6, 131072, 256, "gelu_pytorch_tanh"},
    {"gemma3", Family::kGemma3, true, 1e6, 131072, 256, "gelu_pytorch_tanh"},
    {"phi3", Family::kPhi3, false, 1e4, 4096, 0, "silu"},
    {"granite", Family::kGranite, false, 1e4, 2048, 0, "silu"},
};

// Sizes beyond these are no model; below them no product in the engine overflows.
constexpr IntRange kSize{.min = 1, .max = 1 << 24};
constexpr IntRange kCount{.min = 1, .max = 1 << 16};

Result<const FamilyDefaults*> FindFamily(const JsonObjectReader& json) {
  LORICA_ASSIGN_OR_RETURN(const std::string type, json.String("model_type"));
  for (const FamilyDefaults& family : kFamilies) {
    if (family.model_type == type) return &family;
  }
  return Unimplemented(json.where() + ": expected a model_type that Lorica serves (llama, " +
                       "mistral, qwen2, qwen3), found \"" + type + "\"");
}

Status RefuseForeignCode(const JsonObjectReader& json) {
  for (const std::string_view key : {"quantization_config", "auto_map"}) {
    if (!json.Has(key)) continue;
    return Unimplemented(json.where() + ": expected a model without " + std::string(key) +
                         ", found " + formats::DescribeJson(*json.Find(key)));
  }
  LORICA_ASSIGN_OR_RETURN(const auto architectures, json.OptionalStringArray("architectures"));
  if (architectures.has_value()) {
    for (const std::string& name : *architectures) {
      if (name.ends_with("ForCausalLM") || name.ends_with("ForConditionalGeneration")) continue;
      return Unimplemented(json.where() + ": expected an architecture for causal language " +
                           "modelling, found \"" + name + "\"");
    }
  }
  return OkStatus();
}

Status ReadSizes(const JsonObjectReader& json, const FamilyDefaults& family, ModelConfig* config) {
  LORICA_ASSIGN_OR_RETURN(const int64_t layers, json.Int("num_hidden_layers", kCount));
  LORICA_ASSIGN_OR_RETURN(const int64_t width, json.Int("hidden_size", kSize));
  LORICA_ASSIGN_OR_RETURN(const int64_t ffn, json.Int("intermediate_size", kSize));
  LORICA_ASSIGN_OR_RETURN(const int64_t vocab, json.Int("vocab_size", kSize));
  LORICA_ASSIGN_OR_RETURN(const int64_t heads, json.Int("num_attention_heads", kCount));
  LORICA_ASSIGN_OR_RETURN(const auto kv_heads, json.OptionalInt("num_key_value_heads", kCount));
  LORICA_ASSIGN_OR_RETURN(const auto head_dim, json.OptionalInt("head_dim", kCount));
  LORICA_ASSIGN_OR_RETURN(const auto positions,
                          json.OptionalInt("max_position_embeddings", IntRange::Positive()));
  config->layers = static_cast<int32_t>(layers);
  config->width = static_cast<int32_t>(width);
  config->ffn_width = static_cast<int32_t>(ffn);
  config->vocab = static_cast<int32_t>(vocab);
  config->heads = static_cast<int32_t>(heads);
  config->kv_heads = static_cast<int32_t>(kv_heads.value_or(heads));
  const int64_t derived = family.head_dim != 0 ? family.head_dim : width / heads;
  if (!head_dim.has_value() && family.head_dim == 0 && width % heads != 0) {
    return json.Wrong("hidden_size",
                      "a multiple of num_attention_heads (" + std::to_string(heads) + ")");
  }
  config->head_dim = static_cast<int32_t>(head_dim.value_or(derived));
  config->max_positions = positions.value_or(family.max_positions);
  config->layer.assign(static_cast<size_t>(layers), LayerConfig());
  return OkStatus();
}

Status ReadDType(const JsonObjectReader& json, ModelConfig* config) {
  LORICA_ASSIGN_OR_RETURN(const auto old_name, json.OptionalString("torch_dtype"));
  LORICA_ASSIGN_OR_RETURN(const auto new_name, json.OptionalString("dtype"));
  if (old_name.has_value() && new_name.has_value() && *old_name != *new_name) {
    return InvalidArgument(json.where() + ": expected dtype and torch_dtype to agree, found \"" +
                           *new_name + "\" and \"" + *old_name + "\"");
  }
  const std::string name = new_name.value_or(old_name.value_or("float32"));
  if (name == "bfloat16") {
    config->checkpoint_dtype = DType::kBF16;
  } else if (name == "float16") {
    config->checkpoint_dtype = DType::kF16;
  } else if (name == "float32" || name == "auto") {
    config->checkpoint_dtype = DType::kF32;
  } else {
    return json.Wrong(new_name.has_value() ? "dtype" : "torch_dtype",
                      "bfloat16, float16 or float32");
  }
  return OkStatus();
}

Status ReadActivation(const JsonObjectReader& json, const FamilyDefaults& family,
                      ModelConfig* config) {
  LORICA_ASSIGN_OR_RETURN(const auto newer, json.OptionalString("hidden_activation"));
  LORICA_ASSIGN_OR_RETURN(const auto older, json.OptionalString("hidden_act"));
  const std::string name = newer.value_or(older.value_or(std::string(family.activation)));
  const bool gemma = family.family == Family::kGemma2 || family.family == Family::kGemma3;
  if (name == "silu" || name == "swish") {
    config->activation = Activation::kSilu;
  } else if (name == "gelu_pytorch_tanh" || (gemma && name == "gelu")) {
    config->activation = Activation::kGeluTanh;
  } else {
    return Unimplemented(json.where() + ": expected hidden_act \"silu\", found \"" + name + "\"");
  }
  return OkStatus();
}

Status ReadBiases(const JsonObjectReader& json, ModelConfig* config) {
  LORICA_ASSIGN_OR_RETURN(const auto attention, json.OptionalBool("attention_bias"));
  LORICA_ASSIGN_OR_RETURN(const auto mlp, json.OptionalBool("mlp_bias"));
  switch (config->family) {
    case Family::kQwen2:
      // Fixed by the class; its config has no field for it.
      config->qkv_bias = true;
      break;
    case Family::kMistral:
    case Family::kPhi3:
      break;
    default:
      config->qkv_bias = config->o_bias = attention.value_or(false);
      config->mlp_bias = mlp.value_or(false);
  }
  return OkStatus();
}

// Which layers see a window only, from layer_types where it is, else from the family's rule.
Status ReadWindows(const JsonObjectReader& json, ModelConfig* config) {
  LORICA_ASSIGN_OR_RETURN(auto window, json.OptionalInt("sliding_window", IntRange::NonNegative()));
  LORICA_ASSIGN_OR_RETURN(const auto use, json.OptionalBool("use_sliding_window"));
  // The class's own default is a window; only a written null turns it off.
  const bool absent = !json.object().contains("sliding_window");
  if (config->family == Family::kMistral && absent) window = 4096;
  const bool by_switch = config->family == Family::kQwen2 || config->family == Family::kQwen3 ||
                         config->family == Family::kSmolLm3;
  if (by_switch && !use.value_or(false)) window = std::nullopt;

  LORICA_ASSIGN_OR_RETURN(const auto types, json.OptionalStringArray("layer_types"));
  if (types.has_value()) {
    if (types->size() != config->layer.size()) {
      return json.Wrong("layer_types", std::to_string(config->layer.size()) + " entries");
    }
    for (size_t i = 0; i < types->size(); ++i) {
      if ((*types)[i] == "full_attention") continue;
      if ((*types)[i] != "sliding_attention") {
        return Unimplemented(json.where() + ": expected layer_types of full_attention or " +
                             "sliding_attention, found \"" + (*types)[i] + "\"");
      }
      if (!window.has_value()) {
        return json.Wrong("layer_types", "full_attention only, as no sliding_window is in use");
      }
      config->layer[i].sliding_window = *window;
      config->layer[i].local_rope = config->family == Family::kGemma3;
    }
  } else if (window.has_value()) {
    LORICA_ASSIGN_OR_RETURN(const auto from,
                            json.OptionalInt("max_window_layers", IntRange::NonNegative()));
    LORICA_ASSIGN_OR_RETURN(const auto pattern,
                            json.OptionalInt("sliding_window_pattern", IntRange::Positive()));
    for (size_t i = 0; i < config->layer.size(); ++i) {
      bool slides = true;
      if (by_switch) slides = static_cast<int64_t>(i) >= from.value_or(28);
      if (config->family == Family::kGemma2) slides = i % 2 == 0;
      if (config->family == Family::kGemma3) {
        slides = (static_cast<int64_t>(i) + 1) % pattern.value_or(6) != 0;
        config->layer[i].local_rope = slides;
      }
      if (slides) config->layer[i].sliding_window = window.value_or(0);
    }
  }
  for (LayerConfig& layer : config->layer) {
    // A window that no sequence can outgrow is full attention.
    if (layer.sliding_window >= config->max_positions) layer.sliding_window = 0;
  }
  return OkStatus();
}

Status ReadNoRopeLayers(const JsonObjectReader& json, ModelConfig* config) {
  if (config->family != Family::kSmolLm3) return OkStatus();
  const boost::json::value* list = json.Find("no_rope_layers");
  for (size_t i = 0; i < config->layer.size(); ++i) {
    if (list == nullptr) {
      config->layer[i].use_rope = (i + 1) % 4 != 0;
    } else if (!list->is_array() || list->as_array().size() != config->layer.size()) {
      return json.Wrong("no_rope_layers", std::to_string(config->layer.size()) + " entries");
    } else {
      config->layer[i].use_rope = list->as_array()[i] != 0;
    }
  }
  return OkStatus();
}

Status ReadScales(const JsonObjectReader& json, ModelConfig* config) {
  config->score_scale = 1.0 / std::sqrt(static_cast<double>(config->head_dim));
  const bool gemma = config->family == Family::kGemma2 || config->family == Family::kGemma3;
  if (gemma) {
    LORICA_ASSIGN_OR_RETURN(const auto scalar, json.OptionalDouble("query_pre_attn_scalar"));
    config->score_scale = 1.0 / std::sqrt(scalar.value_or(256.0));
    config->embedding_scale = std::sqrt(static_cast<double>(config->width));
    config->norm_plus_one = config->post_norms = true;
    const bool capped = config->family == Family::kGemma2;
    LORICA_ASSIGN_OR_RETURN(const auto attention, json.OptionalDouble("attn_logit_softcapping"));
    LORICA_ASSIGN_OR_RETURN(const auto final, json.OptionalDouble("final_logit_softcapping"));
    const auto silent = [&](const char* key) { return capped && !json.object().contains(key); };
    config->attention_softcap = silent("attn_logit_softcapping") ? 50.0 : attention.value_or(0.0);
    config->final_softcap = silent("final_logit_softcapping") ? 30.0 : final.value_or(0.0);
  }
  if (config->family == Family::kGranite) {
    LORICA_ASSIGN_OR_RETURN(const auto score, json.OptionalDouble("attention_multiplier"));
    LORICA_ASSIGN_OR_RETURN(const auto embedding, json.OptionalDouble("embedding_multiplier"));
    LORICA_ASSIGN_OR_RETURN(const auto residual, json.OptionalDouble("residual_multiplier"));
    LORICA_ASSIGN_OR_RETURN(const auto logits, json.OptionalDouble("logits_scaling"));
    config->score_scale = score.value_or(1.0);
    config->embedding_scale = embedding.value_or(1.0);
    config->residual_scale = residual.value_or(1.0);
    config->logits_divisor = logits.value_or(1.0);
  }
  config->qk_norm = config->family == Family::kQwen3 || config->family == Family::kGemma3;
  config->fused_projections = config->family == Family::kPhi3;
  LORICA_ASSIGN_OR_RETURN(const auto epsilon, json.OptionalDouble("rms_norm_eps"));
  config->norm_epsilon = epsilon.value_or(config->family == Family::kPhi3 ? 1e-5 : 1e-6);
  if (!(config->norm_epsilon >= 0.0 && config->norm_epsilon < 1.0)) {
    return json.Wrong("rms_norm_eps", "a small positive number");
  }
  return OkStatus();
}

Status ReadTokenIds(const JsonObjectReader& json, ModelConfig* config) {
  const IntRange id{.min = 0, .max = config->vocab - 1};
  const boost::json::value* eos = json.Find("eos_token_id");
  if (eos != nullptr && eos->is_array()) {
    for (const boost::json::value& value : eos->as_array()) {
      if (!value.is_int64() || value.as_int64() < 0 || value.as_int64() > id.max) {
        return json.Wrong("eos_token_id", "token ids below vocab_size");
      }
      config->eos_token_ids.push_back(static_cast<int32_t>(value.as_int64()));
    }
  } else {
    LORICA_ASSIGN_OR_RETURN(const auto one, json.OptionalInt("eos_token_id", id));
    if (one.has_value()) config->eos_token_ids.push_back(static_cast<int32_t>(*one));
  }
  const boost::json::value* bos = json.Find("bos_token_id");
  if (bos != nullptr && bos->is_int64() && bos->as_int64() >= 0 && bos->as_int64() <= id.max) {
    config->bos_token_id = static_cast<int32_t>(bos->as_int64());
  }
  return OkStatus();
}

Status CheckShape(const std::string& name, const ModelConfig& config) {
  if (config.heads % config.kv_heads != 0) {
    return InvalidArgument(name + ": expected num_attention_heads to be a multiple of " +
                           "num_key_value_heads, found " + std::to_string(config.heads) + " and " +
                           std::to_string(config.kv_heads));
  }
  if (config.head_dim % 2 != 0) {
    return InvalidArgument(name + ": expected an even head_dim, found " +
                           std::to_string(config.head_dim));
  }
  return OkStatus();
}

}  // namespace

std::string_view FamilyName(Family family) {
  for (const FamilyDefaults& entry : kFamilies) {
    if (entry.family == family) return entry.model_type;
  }
  return "?";
}

Result<ModelConfig> ParseModelConfig(std::string_view text, const std::string& name) {
  auto parsed = formats::ParseJson(text);
  if (!parsed.ok()) return parsed.status().WithContext(name);
  LORICA_ASSIGN_OR_RETURN(const JsonObjectReader outer, JsonObjectReader::Of(*parsed, name));
  LORICA_RETURN_IF_ERROR(RefuseForeignCode(outer));
  LORICA_ASSIGN_OR_RETURN(const auto nested, outer.OptionalObject("text_config"));
  const JsonObjectReader& json = nested.has_value() ? *nested : outer;
  LORICA_RETURN_IF_ERROR(RefuseForeignCode(json));
  LORICA_ASSIGN_OR_RETURN(const FamilyDefaults* family,
                          FindFamily(json.Has("model_type") ? json : outer));

  ModelConfig config;
  config.family = family->family;
  LORICA_RETURN_IF_ERROR(ReadSizes(json, *family, &config));
  LORICA_RETURN_IF_ERROR(
      ReadDType(json.Has("dtype") || json.Has("torch_dtype") ? json : outer, &config));
  LORICA_RETURN_IF_ERROR(ReadActivation(json, *family, &config));
  LORICA_RETURN_IF_ERROR(ReadBiases(json, &config));
  LORICA_RETURN_IF_ERROR(ReadWindows(json, &config));
  LORICA_RETURN_IF_ERROR(ReadNoRopeLayers(json, &config));
  LORICA_RETURN_IF_ERROR(ReadScales(json, &config));
  LORICA_RETURN_IF_ERROR(ReadRope(json, family->theta, &config));
  LORICA_RETURN_IF_ERROR(ReadTokenIds(json.Has("eos_token_id") ? json : outer, &config));
  LORICA_ASSIGN_OR_RETURN(const auto tied, json.OptionalBool("tie_word_embeddings"));
  LORICA_ASSIGN_OR_RETURN(const auto outer_tied, outer.OptionalBool("tie_word_embeddings"));
  config.tied_head = tied.value_or(outer_tied.value_or(family->tied_head));
  LORICA_RETURN_IF_ERROR(CheckShape(name, config));
  return config;
}

Status CheckServed(const ModelConfig& config) {
  const std::string family(FamilyName(config.family));
  const auto refuse = [&family](const std::string& what) {
    return Unimplemented("the model's " + what + " is not served yet (family " + family + ")");
  };
  switch (config.family) {
    case Family::kLlama:
    case Family::kMistral:
    case Family::kQwen2:
    case Family::kQwen3:
      break;
    default:
      return Unimplemented("expected a model of a family that Lorica serves (llama, mistral, " +
                           std::string("qwen2, qwen3), found ") + family);
  }
  for (const LayerConfig& layer : config.layer) {
    if (layer.sliding_window != 0) {
      return refuse("sliding_window of " + std::to_string(layer.sliding_window) + " tokens");
    }
    if (!layer.use_rope || layer.local_rope) return refuse("layer without common positions");
  }
  switch (config.rope.kind) {
    case RopeKind::kDefault:
    case RopeKind::kLinear:
    case RopeKind::kLlama3:
      break;
    case RopeKind::kYarn:
      return refuse("rope_type \"yarn\"");
    case RopeKind::kLongrope:
      return refuse("rope_type \"longrope\"");
  }
  if (config.rope.partial_rotary_factor != 1.0) return refuse("partial_rotary_factor");
  if (config.rope_local.has_value()) return refuse("second rope_theta");
  if (config.activation != Activation::kSilu) return refuse("hidden_act");
  if (config.norm_plus_one || config.post_norms) return refuse("norm layout");
  if (config.fused_projections) return refuse("fused projections");
  if (config.embedding_scale != 1.0 || config.residual_scale != 1.0 ||
      config.logits_divisor != 1.0) {
    return refuse("multiplier of embedding, residual or logits");
  }
  if (config.attention_softcap != 0.0 || config.final_softcap != 0.0) return refuse("softcap");
  return OkStatus();
}

}  // namespace lorica::model
