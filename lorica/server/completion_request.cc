#include "lorica/server/completion_request.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "lorica/formats/json.h"

namespace lorica::server {
namespace {

using formats::IntRange;
using formats::JsonObjectReader;

constexpr int64_t kMostChoices = 128;
constexpr int64_t kMostPrompts = 1024;
constexpr int64_t kMostLogprobs = 20;
constexpr int64_t kMostStops = 16;
constexpr int64_t kBodyLimitBytes = int64_t{64} << 20;

// Every field that is read, and those that change nothing in an answer.
constexpr std::array kKnownFields = {"model",
                                     "prompt",
                                     "max_tokens",
                                     "max_completion_tokens",
                                     "temperature",
                                     "top_p",
                                     "n",
                                     "stream",
                                     "stream_options",
                                     "logprobs",
                                     "echo",
                                     "stop",
                                     "presence_penalty",
                                     "frequency_penalty",
                                     "best_of",
                                     "logit_bias",
                                     "seed",
                                     "user",
                                     "suffix",
                                     "top_k",
                                     "min_p",
                                     "repetition_penalty",
                                     "ignore_eos",
                                     "min_tokens",
                                     "stop_token_ids",
                                     "return_token_ids",
                                     "include_stop_str_in_output",
                                     "skip_special_tokens",
                                     "add_special_tokens",
                                     "lora",
                                     "metadata",
                                     "store",
                                     "service_tier"};

// A field's Status as the error that names it.
ApiError FieldError(const Status& status, std::string_view field) {
  return ToApiError(status, std::string(field));
}

class Fields {
 public:
  explicit Fields(const JsonObjectReader& reader) : reader_(reader) {}

  bool failed() const { return error_.has_value(); }
  ApiError error() const { return *error_; }

  void Fail(std::string_view key, Status status) {
    if (!failed()) error_ = FieldError(status, key);
  }
  void Wrong(std::string_view key, std::string_view expected) {
    Fail(key, reader_.Wrong(key, expected));
  }

  void Read(std::string_view key, bool* target) {
    Result<std::optional<bool>> value = reader_.OptionalBool(key);
    if (!value.ok()) return Fail(key, value.status());
    if (*value) *target = **value;
  }
  // A double in [min, max].
  void Read(std::string_view key, double min, double max, double* target) {
    Result<std::optional<double>> value = reader_.OptionalDouble(key);
    if (!value.ok()) return Fail(key, value.status());
    if (!*value) return;
    if (!(**value >= min && **value <= max)) {
      return Wrong(key, "a number from " + Short(min) + " to " + Short(max));
    }
    *target = **value;
  }
  std::optional<int64_t> Int(std::string_view key, IntRange range) {
    Result<std::optional<int64_t>> value = reader_.OptionalInt(key, range);
    if (!value.ok()) {
      Fail(key, value.status());
      return std::nullopt;
    }
    return *value;
  }
  void Read(std::string_view key, IntRange range, int32_t* target) {
    if (const auto value = Int(key, range)) *target = static_cast<int32_t>(*value);
  }

  const JsonObjectReader& reader() const { return reader_; }

 private:
  static std::string Short(double value) {
    std::string text = std::to_string(value);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
  }

  const JsonObjectReader& reader_;
  std::optional<ApiError> error_;
};

bool ReadTokenIds(const boost::json::array& list, std::vector<int32_t>* ids) {
  for (const boost::json::value& item : list) {
    const int64_t* id = item.if_int64();
    if (id == nullptr || *id < 0 || *id > INT32_MAX) return false;
    ids->push_back(static_cast<int32_t>(*id));
  }
  return true;
}

// A string, a list of strings, a list of ids, or a list of lists of ids.
void ReadPrompts(Fields* fields, std::vector<Prompt>* prompts) {
  constexpr std::string_view kExpected = "a string, token ids, or a list of either";
  const boost::json::value* value = fields->reader().Find("prompt");
  if (value == nullptr) {
    return fields->Fail("prompt", InvalidArgument("\"prompt\": expected " + std::string(kExpected) +
                                                  ", found nothing"));
  }
  if (const auto* text = value->if_string()) {
    prompts->emplace_back(std::string(text->begin(), text->end()));
    return;
  }
  const boost::json::array* list = value->if_array();
  if (list == nullptr || list->empty()) return fields->Wrong("prompt", kExpected);
  if (list->front().is_number()) {
    std::vector<int32_t> ids;
    if (!ReadTokenIds(*list, &ids)) return fields->Wrong("prompt", kExpected);
    prompts->emplace_back(std::move(ids));
    return;
  }
  if (static_cast<int64_t>(list->size()) > kMostPrompts) {
    return fields->Wrong("prompt", "at most " + std::to_string(kMostPrompts) + " prompts");
  }
  for (const boost::json::value& item : *list) {
    std::vector<int32_t> ids;
    if (const auto* text = item.if_string()) {
      prompts->emplace_back(std::string(text->begin(), text->end()));
    } else if (item.is_array() && ReadTokenIds(item.get_array(), &ids)) {
      prompts->emplace_back(std::move(ids));
    } else {
      return fields->Wrong("prompt", kExpected);
    }
  }
}

void ReadStops(Fields* fields, engine::SamplingParams* sampling) {
  const boost::json::value* value = fields->reader().Find("stop");
  if (value != nullptr) {
    constexpr std::string_view kExpected = "a non-empty string or a list of at most 16 of them";
    const auto add = [&](const boost::json::value& item) {
      const auto* text = item.if_string();
      if (text == nullptr || text->empty()) return false;
      sampling->stop.emplace_back(text->begin(), text->end());
      return true;
    };
    if (const boost::json::array* list = value->if_array()) {
      if (static_cast<int64_t>(list->size()) > kMostStops) return fields->Wrong("stop", kExpected);
      for (const boost::json::value& item : *list) {
        if (!add(item)) return fields->Wrong("stop", kExpected);
      }
    } else if (!add(*value)) {
      return fields->Wrong("stop", kExpected);
    }
  }
  const boost::json::value* ids = fields->reader().Find("stop_token_ids");
  if (ids != nullptr &&
      (!ids->is_array() || !ReadTokenIds(ids->get_array(), &sampling->stop_token_ids))) {
    fields->Wrong("stop_token_ids", "a list of token ids");
  }
}

void ReadLogitBias(Fields* fields, engine::SamplingParams* sampling) {
  const boost::json::value* value = fields->reader().Find("logit_bias");
  if (value == nullptr) return;
  constexpr std::string_view kExpected = "an object of token ids to numbers from -100 to 100";
  const boost::json::object* object = value->if_object();
  if (object == nullptr) return fields->Wrong("logit_bias", kExpected);
  for (const auto& [key, bias] : *object) {
    const bool digits =
        !key.empty() && key.size() <= 9 &&
        std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!digits || !bias.is_number()) return fields->Wrong("logit_bias", kExpected);
    const auto amount = bias.to_number<double>();
    if (!(amount >= -100.0 && amount <= 100.0)) return fields->Wrong("logit_bias", kExpected);
    sampling->logit_bias[std::stoi(std::string(key))] = amount;
  }
}

// `logprobs` of the completions API: a count; true and false are the chat API's.
void ReadLogprobs(Fields* fields, engine::SamplingParams* sampling) {
  if (const auto count = fields->Int("logprobs", {.min = 0, .max = kMostLogprobs})) {
    sampling->logprobs = static_cast<int32_t>(*count);
  }
}

void ReadLengths(Fields* fields, CompletionRequest* request) {
  engine::SamplingParams& sampling = request->sampling;
  for (const char* key : {"max_tokens", "max_completion_tokens"}) {
    if (const auto value = fields->Int(key, {.min = 0, .max = INT32_MAX})) {
      sampling.max_tokens = static_cast<int32_t>(*value);
    }
  }
  fields->Read("min_tokens", {.min = 0, .max = INT32_MAX}, &sampling.min_tokens);
  if (sampling.min_tokens > sampling.max_tokens) {
    fields->Wrong("min_tokens", "at most max_tokens (" + std::to_string(sampling.max_tokens) + ")");
  }
  fields->Read("n", {.min = 1, .max = kMostChoices}, &request->n);
  if (const auto best_of = fields->Int("best_of", {.min = 1, .max = kMostChoices})) {
    if (*best_of != request->n) fields->Wrong("best_of", "n (best_of is not served)");
  }
}

void ReadSampling(Fields* fields, engine::SamplingParams* sampling) {
  fields->Read("temperature", 0.0, 100.0, &sampling->temperature);
  fields->Read("top_p", 0.0, 1.0, &sampling->top_p);
  if (sampling->top_p == 0.0) fields->Wrong("top_p", "a number above 0");
  fields->Read("min_p", 0.0, 1.0, &sampling->min_p);
  // vLLM's clients write -1 for "all".
  fields->Read("top_k", {.min = -1, .max = INT32_MAX}, &sampling->top_k);
  sampling->top_k = std::max(sampling->top_k, 0);
  fields->Read("presence_penalty", -2.0, 2.0, &sampling->presence_penalty);
  fields->Read("frequency_penalty", -2.0, 2.0, &sampling->frequency_penalty);
  fields->Read("repetition_penalty", 0.01, 100.0, &sampling->repetition_penalty);
  if (const auto seed = fields->Int("seed", {})) sampling->seed = static_cast<uint64_t>(*seed);
  fields->Read("ignore_eos", &sampling->ignore_eos);
  fields->Read("include_stop_str_in_output", &sampling->include_stop);
  fields->Read("echo", &sampling->echo);
}

// [{"name": NAME, "scale": NUMBER}], of one entry.
void ReadLora(Fields* fields, CompletionRequest* request) {
  const boost::json::value* value = fields->reader().Find("lora");
  if (value == nullptr) return;
  constexpr std::string_view kExpected = "a list of one object with name and scale";
  const boost::json::array* list = value->if_array();
  if (list == nullptr || list->size() != 1) return fields->Wrong("lora", kExpected);
  const Result<JsonObjectReader> entry = JsonObjectReader::Of(list->front(), "\"lora\"");
  if (!entry.ok()) return fields->Wrong("lora", kExpected);
  for (const auto& [key, field] : entry->object()) {
    if (key != "name" && key != "scale") return fields->Wrong("lora", kExpected);
  }
  Result<std::string> name = entry->String("name");
  if (!name.ok()) return fields->Fail("lora", name.status());
  Result<std::optional<double>> scale = entry->OptionalDouble("scale");
  if (!scale.ok()) return fields->Fail("lora", scale.status());
  request->lora_name = *std::move(name);
  request->lora_scale = scale->value_or(1.0);
}

void ReadStreaming(Fields* fields, CompletionRequest* request) {
  fields->Read("stream", &request->stream);
  Result<std::optional<JsonObjectReader>> options =
      fields->reader().OptionalObject("stream_options");
  if (!options.ok()) return fields->Fail("stream_options", options.status());
  if (!*options) return;
  if (!request->stream) return fields->Wrong("stream_options", "nothing unless \"stream\" is true");
  Result<std::optional<bool>> usage = (*options)->OptionalBool("include_usage");
  if (!usage.ok()) return fields->Fail("stream_options", usage.status());
  request->include_usage = usage->value_or(false);
}

ApiResult<boost::json::value> ParseBody(std::string_view body) {
  formats::JsonLimits limits;
  limits.bytes = kBodyLimitBytes;
  Result<boost::json::value> value = formats::ParseJson(body, limits);
  if (!value.ok()) return ToApiError(value.status().WithContext("request body"));
  if (!value->is_object()) {
    return ToApiError(InvalidArgument("request body: expected a JSON object, found " +
                                      formats::DescribeJson(*value)));
  }
  return std::move(*value);
}

}  // namespace

ApiResult<CompletionRequest> ParseCompletionRequest(std::string_view body,
                                                    const GenerationDefaults& defaults) {
  return ParseCompletionRequestFor(
      body, [&](const std::string&) -> ApiResult<GenerationDefaults> { return defaults; });
}

ApiResult<CompletionRequest> ParseCompletionRequestFor(std::string_view body,
                                                       const DefaultsOf& defaults_of) {
  ApiResult<boost::json::value> parsed = ParseBody(body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const JsonObjectReader reader(std::get<boost::json::value>(parsed).get_object(), "request body");
  Result<std::string> model = reader.String("model");
  if (!model.ok()) return ToApiError(model.status(), "model");
  ApiResult<GenerationDefaults> known = defaults_of(*model);
  if (auto* error = std::get_if<ApiError>(&known)) return std::move(*error);
  const GenerationDefaults& defaults = std::get<GenerationDefaults>(known);
  for (const auto& [key, value] : reader.object()) {
    if (value.is_null()) continue;
    const std::string_view name(key.data(), key.size());
    if (std::find(kKnownFields.begin(), kKnownFields.end(), name) == kKnownFields.end()) {
      return FieldError(InvalidArgument("request body: \"" + std::string(name) +
                                        "\" is not a field of completions"),
                        name);
    }
  }

  CompletionRequest request;
  defaults.Apply(&request.sampling);
  Fields fields(reader);
  request.model = *model;
  ReadPrompts(&fields, &request.prompts);
  ReadLengths(&fields, &request);
  ReadSampling(&fields, &request.sampling);
  ReadStops(&fields, &request.sampling);
  ReadLogitBias(&fields, &request.sampling);
  ReadLogprobs(&fields, &request.sampling);
  ReadStreaming(&fields, &request);
  ReadLora(&fields, &request);
  fields.Read("return_token_ids", &request.return_token_ids);
  fields.Read("add_special_tokens", &request.add_special_tokens);
  fields.Read("skip_special_tokens", &request.skip_special_tokens);
  if (!request.skip_special_tokens) {
    fields.Wrong("skip_special_tokens", "true (false is not served)");
  }
  Result<std::optional<std::string>> suffix = reader.OptionalString("suffix");
  if (!suffix.ok() || (*suffix && !(*suffix)->empty())) {
    fields.Wrong("suffix", "nothing (infilling is not served)");
  }
  if (fields.failed()) return fields.error();

  if (!request.sampling.ignore_eos) {
    auto& ids = request.sampling.stop_token_ids;
    ids.insert(ids.end(), defaults.eos_token_ids.begin(), defaults.eos_token_ids.end());
  }
  auto& stops = request.sampling.stop;
  stops.insert(stops.end(), defaults.stop_strings.begin(), defaults.stop_strings.end());
  return request;
}

}  // namespace lorica::server
