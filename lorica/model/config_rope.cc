#include "lorica/model/config_rope.h"

#include <cmath>
#include <optional>

namespace lorica::model {
namespace {

using formats::JsonObjectReader;

Status ReadFactors(const JsonObjectReader& json, std::string_view key,
                   std::vector<double>* factors) {
  const boost::json::value* value = json.Find(key);
  if (value == nullptr || !value->is_array()) return json.Wrong(key, "an array of numbers");
  for (const boost::json::value& item : value->as_array()) {
    if (!item.is_number()) return json.Wrong(key, "an array of numbers");
    factors->push_back(item.to_number<double>());
  }
  return OkStatus();
}

Result<RopeKind> ReadKind(const JsonObjectReader& json) {
  LORICA_ASSIGN_OR_RETURN(const auto newer, json.OptionalString("rope_type"));
  LORICA_ASSIGN_OR_RETURN(const auto older, json.OptionalString("type"));
  if (newer.has_value() && older.has_value() && *newer != *older) {
    return json.Wrong("type", "the same as rope_type (\"" + *newer + "\")");
  }
  const std::string name = newer.value_or(older.value_or("default"));
  if (name == "default") return RopeKind::kDefault;
  if (name == "linear") return RopeKind::kLinear;
  if (name == "llama3") return RopeKind::kLlama3;
  if (name == "yarn") return RopeKind::kYarn;
  if (name == "longrope" || name == "su") return RopeKind::kLongrope;
  return Unimplemented(json.where() + ": expected rope_type default, linear or llama3, found \"" +
                       name + "\"");
}

// The fields of a rope_parameters or rope_scaling object. `outer` is the whole config.
Status ReadObject(const JsonObjectReader& json, const JsonObjectReader& outer, RopeConfig* rope) {
  LORICA_ASSIGN_OR_RETURN(rope->kind, ReadKind(json));
  LORICA_ASSIGN_OR_RETURN(const auto theta, json.OptionalDouble("rope_theta"));
  if (theta.has_value()) rope->theta = *theta;
  LORICA_ASSIGN_OR_RETURN(const auto partial, json.OptionalDouble("partial_rotary_factor"));
  if (partial.has_value()) rope->partial_rotary_factor = *partial;
  if (rope->kind == RopeKind::kDefault) return OkStatus();

  if (rope->kind != RopeKind::kLongrope) {
    LORICA_ASSIGN_OR_RETURN(rope->factor, json.Double("factor"));
    if (!(rope->factor >= 1.0 && std::isfinite(rope->factor))) {
      return json.Wrong("factor", "a number of at least 1");
    }
  }
  if (rope->kind == RopeKind::kLinear) return OkStatus();

  const formats::IntRange positions = formats::IntRange::Positive();
  const char* key = "original_max_position_embeddings";
  LORICA_ASSIGN_OR_RETURN(const auto original, json.OptionalInt(key, positions));
  LORICA_ASSIGN_OR_RETURN(const auto outer_original, outer.OptionalInt(key, positions));
  if (!original.has_value() && !outer_original.has_value()) {
    return json.Wrong(key, "a positive integer");
  }
  rope->original_max_positions = original.has_value() ? *original : *outer_original;
  if (rope->kind == RopeKind::kLlama3) {
    LORICA_ASSIGN_OR_RETURN(rope->low_freq_factor, json.Double("low_freq_factor"));
    LORICA_ASSIGN_OR_RETURN(rope->high_freq_factor, json.Double("high_freq_factor"));
    if (!(rope->low_freq_factor > 0.0 && rope->high_freq_factor > rope->low_freq_factor)) {
      return json.Wrong("high_freq_factor", "a number greater than low_freq_factor, both positive");
    }
    return OkStatus();
  }
  LORICA_ASSIGN_OR_RETURN(const auto attention, json.OptionalDouble("attention_factor"));
  if (rope->kind == RopeKind::kYarn) {
    rope->attention_factor = attention.value_or(0.1 * std::log(rope->factor) + 1.0);
    LORICA_ASSIGN_OR_RETURN(const auto fast, json.OptionalDouble("beta_fast"));
    LORICA_ASSIGN_OR_RETURN(const auto slow, json.OptionalDouble("beta_slow"));
    rope->beta_fast = fast.value_or(32.0);
    rope->beta_slow = slow.value_or(1.0);
    return OkStatus();
  }
  rope->attention_factor = attention.value_or(1.0);
  LORICA_RETURN_IF_ERROR(ReadFactors(json, "short_factor", &rope->short_factors));
  return ReadFactors(json, "long_factor", &rope->long_factors);
}

bool Same(const RopeConfig& a, const RopeConfig& b) {
  return a.kind == b.kind && a.theta == b.theta && a.factor == b.factor &&
         a.low_freq_factor == b.low_freq_factor && a.high_freq_factor == b.high_freq_factor &&
         a.original_max_positions == b.original_max_positions &&
         a.attention_factor == b.attention_factor && a.beta_fast == b.beta_fast &&
         a.beta_slow == b.beta_slow && a.short_factors == b.short_factors &&
         a.long_factors == b.long_factors && a.partial_rotary_factor == b.partial_rotary_factor;
}

Status CheckTheta(const JsonObjectReader& json, const RopeConfig& rope) {
  if (rope.theta > 1.0 && std::isfinite(rope.theta) && rope.partial_rotary_factor > 0.0 &&
      rope.partial_rotary_factor <= 1.0) {
    return OkStatus();
  }
  return InvalidArgument(json.where() + ": expected rope_theta above 1 and " +
                         "partial_rotary_factor in (0, 1], found " + std::to_string(rope.theta) +
                         " and " + std::to_string(rope.partial_rotary_factor));
}

}  // namespace

Status ReadRope(const JsonObjectReader& json, double theta, ModelConfig* config) {
  LORICA_ASSIGN_OR_RETURN(const auto plain_theta, json.OptionalDouble("rope_theta"));
  LORICA_ASSIGN_OR_RETURN(const auto partial, json.OptionalDouble("partial_rotary_factor"));
  LORICA_ASSIGN_OR_RETURN(const auto scaling, json.OptionalObject("rope_scaling"));
  LORICA_ASSIGN_OR_RETURN(const auto parameters, json.OptionalObject("rope_parameters"));

  RopeConfig plain;
  plain.theta = plain_theta.value_or(theta);
  plain.partial_rotary_factor = partial.value_or(1.0);
  RopeConfig older = plain;
  if (scaling.has_value()) LORICA_RETURN_IF_ERROR(ReadObject(*scaling, json, &older));
  config->rope = older;

  if (config->family == Family::kGemma3) {
    LORICA_ASSIGN_OR_RETURN(const auto local, json.OptionalDouble("rope_local_base_freq"));
    config->rope_local = RopeConfig();
    config->rope_local->theta = local.value_or(1e4);
  }
  if (parameters.has_value()) {
    LORICA_ASSIGN_OR_RETURN(const auto full, parameters->OptionalObject("full_attention"));
    LORICA_ASSIGN_OR_RETURN(const auto sliding, parameters->OptionalObject("sliding_attention"));
    RopeConfig newer = plain;
    LORICA_RETURN_IF_ERROR(ReadObject(full.has_value() ? *full : *parameters, json, &newer));
    if (sliding.has_value() && config->rope_local.has_value()) {
      LORICA_RETURN_IF_ERROR(ReadObject(*sliding, json, &*config->rope_local));
    }
    const bool both = scaling.has_value() || plain_theta.has_value();
    // A file without rope_scaling may still repeat rope_theta: then only theta is compared.
    const bool agree = scaling.has_value() ? Same(newer, older) : newer.theta == plain.theta;
    if (both && !agree) {
      return json.Wrong("rope_parameters", "to agree with rope_theta and rope_scaling");
    }
    config->rope = newer;
  }
  return CheckTheta(json, config->rope);
}

}  // namespace lorica::model
