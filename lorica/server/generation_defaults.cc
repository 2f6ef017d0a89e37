#include "lorica/server/generation_defaults.h"

#include <filesystem>
#include <system_error>

#include "lorica/formats/json.h"

namespace lorica::server {
namespace {

using formats::JsonObjectReader;

constexpr int64_t kFileLimitBytes = int64_t{1} << 20;

// An id, a list of ids, or nothing.
Result<std::vector<int32_t>> ReadIds(const JsonObjectReader& reader, std::string_view key) {
  std::vector<int32_t> ids;
  const boost::json::value* value = reader.Find(key);
  if (value == nullptr) return ids;
  const auto add = [&](const boost::json::value& item) {
    const int64_t* id = item.if_int64();
    if (id == nullptr || *id < 0 || *id > INT32_MAX) return false;
    ids.push_back(static_cast<int32_t>(*id));
    return true;
  };
  if (const boost::json::array* list = value->if_array()) {
    for (const boost::json::value& item : *list) {
      if (!add(item)) return reader.Wrong(key, "token ids");
    }
    return ids;
  }
  if (!add(*value)) return reader.Wrong(key, "a token id or a list of them");
  return ids;
}

}  // namespace

void GenerationDefaults::Apply(engine::SamplingParams* sampling) const {
  if (temperature) sampling->temperature = *temperature;
  if (top_k) sampling->top_k = *top_k;
  if (top_p) sampling->top_p = *top_p;
  if (min_p) sampling->min_p = *min_p;
  if (repetition_penalty) sampling->repetition_penalty = *repetition_penalty;
}

Result<GenerationDefaults> ReadGenerationDefaults(const std::string& folder) {
  GenerationDefaults defaults;
  const std::string path = folder + "/generation_config.json";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return defaults;
  formats::JsonLimits limits;
  limits.bytes = kFileLimitBytes;
  LORICA_ASSIGN_OR_RETURN(const boost::json::value value, formats::ReadJsonFile(path, limits));
  LORICA_ASSIGN_OR_RETURN(const JsonObjectReader reader, JsonObjectReader::Of(value, path));

  LORICA_ASSIGN_OR_RETURN(defaults.temperature, reader.OptionalDouble("temperature"));
  LORICA_ASSIGN_OR_RETURN(defaults.top_p, reader.OptionalDouble("top_p"));
  LORICA_ASSIGN_OR_RETURN(defaults.min_p, reader.OptionalDouble("min_p"));
  LORICA_ASSIGN_OR_RETURN(defaults.repetition_penalty, reader.OptionalDouble("repetition_penalty"));
  LORICA_ASSIGN_OR_RETURN(const std::optional<int64_t> top_k,
                          reader.OptionalInt("top_k", {.min = 0, .max = INT32_MAX}));
  if (top_k) defaults.top_k = static_cast<int32_t>(*top_k);
  // transformers ignores the sampling fields unless do_sample is true.
  LORICA_ASSIGN_OR_RETURN(const std::optional<bool> do_sample, reader.OptionalBool("do_sample"));
  if (do_sample && !*do_sample) defaults.temperature = 0.0;
  LORICA_ASSIGN_OR_RETURN(defaults.eos_token_ids, ReadIds(reader, "eos_token_id"));
  LORICA_ASSIGN_OR_RETURN(const auto stops, reader.OptionalStringArray("stop_strings"));
  if (stops) defaults.stop_strings = *stops;

  LORICA_ASSIGN_OR_RETURN(const std::optional<double> typical, reader.OptionalDouble("typical_p"));
  if (typical && *typical != 1.0) {
    return Unimplemented(path + ": \"typical_p\" is set and is not served");
  }
  LORICA_ASSIGN_OR_RETURN(const std::optional<int64_t> ngram,
                          reader.OptionalInt("no_repeat_ngram_size"));
  if (ngram && *ngram != 0) {
    return Unimplemented(path + ": \"no_repeat_ngram_size\" is set and is not served");
  }
  for (const char* key : {"bad_words_ids", "suppress_tokens", "begin_suppress_tokens",
                          "forced_bos_token_id", "forced_eos_token_id"}) {
    const boost::json::value* field = reader.Find(key);
    if (field == nullptr) continue;
    if (field->is_array() && field->get_array().empty()) continue;
    return Unimplemented(path + ": \"" + key + "\" is set and is not served");
  }
  return defaults;
}

}  // namespace lorica::server
