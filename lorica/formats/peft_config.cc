#include "lorica/formats/peft_config.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <optional>
#include <utility>

#include "lorica/formats/json.h"

namespace lorica::formats {
namespace {

namespace json = boost::json;

constexpr JsonLimits kConfigLimits = {.bytes = 4 << 20, .depth = 16, .values = 1 << 17};
constexpr int64_t kMaxRank = 1 << 20;

// Fields that do not change what a loaded adapter computes.
constexpr auto kInert = std::to_array<std::string_view>({
    "peft_type",
    "base_model_name_or_path",
    "revision",
    "auto_mapping",
    "inference_mode",
    "peft_version",
    "lora_dropout",
    "exclude_modules",
    "layers_to_transform",
    "layers_pattern",
    "loftq_config",
    "eva_config",
    "corda_config",
    "lora_ga_config",
    "megatron_core",
    "runtime_config",
    "qalora_group_size",
    // The base weight is stored transposed; A and B are not, so only a merge would care.
    "fan_in_fan_out",
});

// Fields read by a function below.
constexpr auto kRead = std::to_array<std::string_view>({
    "task_type",
    "r",
    "lora_alpha",
    "use_rslora",
    "rank_pattern",
    "alpha_pattern",
    "target_modules",
    "bias",
    "init_lora_weights",
});

struct Variant {
  std::string_view field;
  std::string_view meaning;
  // A sub-config is on as soon as it is an object, an empty one included.
  bool sub_config = false;
};

// Fields of PEFT that change the maths in a way that is not served.
constexpr auto kVariants = std::to_array<Variant>({
    {"use_dora", "DoRA (weight-decomposed LoRA)"},
    {"lora_bias", "a bias on lora_B"},
    {"modules_to_save", "fully trained replacement modules"},
    {"trainable_token_indices", "retrained embedding rows"},
    {"alora_invocation_tokens", "activated LoRA (aLoRA)"},
    {"invocation_string", "activated LoRA (aLoRA)"},
    {"target_parameters", "LoRA on bare parameters such as stacked experts"},
    {"layer_replication", "a restacked base model"},
    {"ensure_weight_tying", "tied adapters of embedding and head"},
    {"use_qalora", "QALoRA (pooled inputs)"},
    {"use_bdlora", "BD-LoRA (block-diagonal factors)", true},
    {"kasa_config", "KaSA (a truncated base and a diagonal)", true},
    {"arrow_config", "Arrow routing over several adapters", true},
    {"velora_config", "VeLoRA", true},
    {"monteclora_config", "MonteCLoRA", true},
    {"megatron_config", "Megatron-parallel layers", true},
    {"enable_lora", "the fused layout of PEFT 0.2 and older"},
});

template <typename List>
bool Contains(const List& list, std::string_view key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

bool IsBlank(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return true;
    case json::kind::bool_:
      return !value.get_bool();
    case json::kind::int64:
      return value.get_int64() == 0;
    case json::kind::uint64:
      return value.get_uint64() == 0;
    case json::kind::double_:
      return value.get_double() == 0.0;
    case json::kind::string:
      return value.get_string().empty();
    case json::kind::array:
      return value.get_array().empty();
    case json::kind::object:
      return value.get_object().empty();
  }
  return false;
}

std::optional<double> Number(const json::value& value) {
  switch (value.kind()) {
    case json::kind::int64:
      return static_cast<double>(value.get_int64());
    case json::kind::uint64:
      return static_cast<double>(value.get_uint64());
    case json::kind::double_:
      return value.get_double();
    default:
      return std::nullopt;
  }
}

std::optional<double> Rank(const json::value& value) {
  const std::optional<double> number = Number(value);
  if (!number || *number != std::floor(*number) || *number < 1 || *number > kMaxRank) {
    return std::nullopt;
  }
  return number;
}

std::optional<double> Alpha(const json::value& value) {
  const std::optional<double> number = Number(value);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

class ConfigReader {
 public:
  ConfigReader(const json::object& object, std::string name) : object_(object) {
    config_.name = std::move(name);
  }

  PeftConfig Read() {
    ReadTypes();
    ReadScale();
    ReadPattern("rank_pattern", Rank, "a whole rank above 0", config_.rank_pattern);
    ReadPattern("alpha_pattern", Alpha, "a finite number", config_.alpha_pattern);
    ReadTargets();
    ReadInit();
    for (const auto& member : object_) ReadOther(member.key(), member.value());
    return std::move(config_);
  }

 private:
  const json::value* Find(std::string_view field) const { return object_.if_contains(field); }

  void Refuse(std::string_view field, std::string_view expected, const json::value& found) {
    config_.refusals.push_back(Unimplemented(config_.name + ": " + QuoteForMessage(field) +
                                             ": expected " + std::string(expected) + ", found " +
                                             DescribeJson(found)));
  }

  bool IsString(const json::value& value, std::string_view text) const {
    return value.is_string() && std::string_view(value.get_string()) == text;
  }

  void ReadTypes() {
    const json::value& type = *Find("peft_type");
    if (!IsString(type, "LORA")) Refuse("peft_type", "\"LORA\"", type);
    const json::value* task = Find("task_type");
    if (task != nullptr && !task->is_null() && !IsString(*task, "CAUSAL_LM")) {
      Refuse("task_type", "\"CAUSAL_LM\" or null", *task);
    }
    const json::value* bias = Find("bias");
    if (bias != nullptr && !IsString(*bias, "none")) {
      Refuse("bias", "\"none\" (adapters that replace biases are not served)", *bias);
    }
    const json::value* base = Find("base_model_name_or_path");
    if (base != nullptr && base->is_string()) config_.base_model = std::string(base->get_string());
  }

  void ReadScale() {
    if (const json::value* r = Find("r")) {
      const std::optional<double> rank = Rank(*r);
      if (rank) config_.r = static_cast<int64_t>(*rank);
      if (!rank) Refuse("r", "a whole rank above 0", *r);
    }
    if (const json::value* value = Find("lora_alpha")) {
      const std::optional<double> alpha = Alpha(*value);
      if (alpha) config_.lora_alpha = *alpha;
      if (!alpha) Refuse("lora_alpha", "a finite number", *value);
    }
    const json::value* rslora = Find("use_rslora");
    if (rslora == nullptr || rslora->is_null()) return;
    if (rslora->is_bool()) config_.use_rslora = rslora->get_bool();
    if (!rslora->is_bool()) Refuse("use_rslora", "true or false", *rslora);
  }

  template <typename Convert>
  void ReadPattern(std::string_view field, Convert convert, std::string_view expected,
                   std::vector<PatternEntry>& entries) {
    const json::value* value = Find(field);
    if (value == nullptr || value->is_null()) return;
    if (!value->is_object()) return Refuse(field, "an object", *value);
    const json::object& object = value->get_object();
    if (object.size() > kMaxPatternKeys) {
      return Refuse(field, "at most " + std::to_string(kMaxPatternKeys) + " keys", *value);
    }
    size_t regex_keys = 0;
    for (const auto& member : object) {
      const std::string_view key = member.key();
      const std::optional<double> number = convert(member.value());
      if (!number) {
        Refuse(std::string(field) + "." + std::string(key), expected, member.value());
        continue;
      }
      Result<PeftPattern> pattern = PeftPattern::Compile(key);
      if (!pattern.ok()) {
        config_.refusals.push_back(
            pattern.status().WithContext(config_.name + ": \"" + std::string(field) + "\""));
        continue;
      }
      regex_keys += pattern->plain() ? 0 : 1;
      entries.push_back({*std::move(pattern), *number});
    }
    if (regex_keys > kMaxRegexKeys) {
      entries.clear();
      config_.refusals.push_back(
          OutOfRange(config_.name + ": \"" + std::string(field) + "\": expected at most " +
                     std::to_string(kMaxRegexKeys) + " keys that are regular expressions, found " +
                     std::to_string(regex_keys)));
    }
  }

  void ReadTargets() {
    const json::value* value = Find("target_modules");
    if (value == nullptr || value->is_null() || value->is_string()) return;
    if (!value->is_array()) return Refuse("target_modules", "a list, a string or null", *value);
    for (const json::value& entry : value->get_array()) {
      if (!entry.is_string()) return Refuse("target_modules", "a list of strings", *value);
      config_.target_modules.emplace_back(entry.get_string());
    }
  }

  void ReadInit() {
    const json::value* value = Find("init_lora_weights");
    if (value == nullptr || value->is_null() || value->is_bool()) return;
    for (const std::string_view safe : {"gaussian", "eva", "orthogonal", "mica"}) {
      if (IsString(*value, safe)) return;
    }
    Refuse("init_lora_weights",
           "true, false, \"gaussian\", \"eva\", \"orthogonal\" or \"mica\" (others train against a "
           "changed base: convert the adapter to plain LoRA when saving it)",
           *value);
  }

  void ReadOther(std::string_view field, const json::value& value) {
    if (Contains(kInert, field) || Contains(kRead, field)) return;
    const auto variant = std::find_if(kVariants.begin(), kVariants.end(),
                                      [&](const Variant& v) { return v.field == field; });
    if (variant == kVariants.end()) {
      if (!IsBlank(value))
        Refuse(field, "no such field (it is unknown, so it must be blank)", value);
      return;
    }
    const bool off =
        variant->sub_config ? value.is_null() || value == json::value(false) : IsBlank(value);
    if (!off) Refuse(field, "null: " + std::string(variant->meaning) + " is not served", value);
  }

  const json::object& object_;
  PeftConfig config_;
};

// What a config without peft_type most likely is.
Status NotPeft(const json::object& object, const std::string& name) {
  std::string hint = "found no such field";
  if (object.contains("lora_parameters") || object.contains("fine_tune_type")) {
    hint = "found the config of an MLX adapter, a format that is not read";
  } else if (object.contains("_name_or_path") || object.contains("architectures") ||
             object.contains("hidden_size")) {
    hint = "found the config of a base model";
  }
  return InvalidArgument(name + ": expected a PEFT config with \"peft_type\", " + hint);
}

}  // namespace

Result<PeftConfig> ParsePeftConfig(std::string_view json_text, std::string name) {
  Result<json::value> parsed = ParseJson(json_text, kConfigLimits);
  if (!parsed.ok()) return parsed.status().WithContext(name);
  if (!parsed->is_object()) {
    return InvalidArgument(name + ": expected a JSON object, found " + DescribeJson(*parsed));
  }
  const json::object& object = parsed->get_object();
  const json::value* type = object.if_contains("peft_type");
  if (type == nullptr || type->is_null()) return NotPeft(object, name);
  return ConfigReader(object, std::move(name)).Read();
}

}  // namespace lorica::formats
