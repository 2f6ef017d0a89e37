#include "lorica/server/openai_api.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

namespace lorica::server {
namespace {

// Enough of a digest to tell contents apart, short enough to read.
constexpr size_t kFingerprintDigits = 12;

int64_t SecondsNow() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Fields of `over` win.
GenerationDefaults Merge(const GenerationDefaults& base, const GenerationDefaults& over) {
  GenerationDefaults merged = base;
  if (over.temperature) merged.temperature = over.temperature;
  if (over.top_k) merged.top_k = over.top_k;
  if (over.top_p) merged.top_p = over.top_p;
  if (over.min_p) merged.min_p = over.min_p;
  if (over.repetition_penalty) merged.repetition_penalty = over.repetition_penalty;
  if (!over.eos_token_ids.empty()) merged.eos_token_ids = over.eos_token_ids;
  if (!over.stop_strings.empty()) merged.stop_strings = over.stop_strings;
  return merged;
}

}  // namespace

OpenAiApi::OpenAiApi(Options options) : options_(std::move(options)), created_(SecondsNow()) {
  LORICA_CHECK(!options_.base_names.empty());
}

void OpenAiApi::SetAdapterDefaults(const std::string& name, const std::string& digest,
                                   GenerationDefaults defaults) {
  const std::unique_lock<std::shared_mutex> lock(mutex_);
  // Most have none; ten thousand names then cost nothing here.
  if (defaults == GenerationDefaults()) {
    adapter_defaults_.erase({name, digest});
  } else {
    adapter_defaults_[{name, digest}] = std::move(defaults);
  }
}

void OpenAiApi::KeepAdapterDefaults(const std::string& name, const std::string& digest) {
  const std::unique_lock<std::shared_mutex> lock(mutex_);
  std::erase_if(adapter_defaults_, [&](const auto& item) {
    return item.first.first == name && item.first.second != digest;
  });
}

bool OpenAiApi::IsBaseName(std::string_view name) const {
  return std::find(options_.base_names.begin(), options_.base_names.end(), name) !=
         options_.base_names.end();
}

ApiResult<GenerationDefaults> OpenAiApi::Acquire(const std::string& name,
                                                 lora::AdapterRef* adapter) const {
  if (IsBaseName(name)) return options_.model_defaults;
  // One lock over both, so that no version is asked for whose defaults are forgotten already.
  const std::shared_lock<std::shared_mutex> lock(mutex_);
  Result<lora::AdapterRef> version = options_.engine->registry().Acquire(name);
  if (!version.ok()) return ToApiError(version.status(), "model");
  *adapter = *std::move(version);
  const auto found = adapter_defaults_.find({name, adapter->version().digest()});
  if (found == adapter_defaults_.end()) return options_.model_defaults;
  return Merge(options_.model_defaults, found->second);
}

std::string OpenAiApi::Fingerprint(const lora::AdapterRef& adapter) const {
  std::string text = "fp_" + options_.model->digest().substr(0, kFingerprintDigits);
  if (adapter.is_base()) return text;
  return text + "_" + adapter.version().digest().substr(0, kFingerprintDigits);
}

ApiResult<std::shared_ptr<Completion>> OpenAiApi::StartCompletion(std::string_view body,
                                                                  CompletionCallbacks callbacks,
                                                                  TransportKind transport) {
  // Held until every choice is submitted, so that all are of one version.
  lora::AdapterRef adapter;
  ApiResult<CompletionRequest> request = ParseCompletionRequestFor(
      body, [&](const std::string& name) { return Acquire(name, &adapter); });
  if (auto* error = std::get_if<ApiError>(&request)) return std::move(*error);
  const std::string& model = std::get<CompletionRequest>(request).model;
  const std::string& lora_name = std::get<CompletionRequest>(request).lora_name;
  if (!lora_name.empty() && adapter.is_base()) {
    Result<lora::AdapterRef> version = options_.engine->registry().Acquire(lora_name);
    if (!version.ok()) return ToApiError(version.status(), "lora");
    adapter = *std::move(version);
  } else if (!lora_name.empty() && lora_name != model) {
    return ToApiError(InvalidArgument("\"lora\": expected \"" + model +
                                      "\" as \"model\" has it, "
                                      "found \"" +
                                      lora_name + "\""),
                      "lora");
  }

  if (transport == TransportKind::kBatch && std::get<CompletionRequest>(request).stream) {
    return ToApiError(InvalidArgument("\"stream\": expected false in a batch file, found true"),
                      "stream");
  }
  Completion::Context context;
  context.engine = options_.engine;
  context.tokenizer = options_.tokenizer;
  context.id = "cmpl-" + std::to_string(next_id_.fetch_add(1));
  context.created = SecondsNow();
  context.fingerprint = Fingerprint(adapter);
  auto completion = std::make_shared<Completion>(
      std::move(context), std::get<CompletionRequest>(std::move(request)), std::move(callbacks));
  const Status started = completion->Start(adapter);
  if (!started.ok()) return ToApiError(started);
  return completion;
}

void OpenAiApi::WriteModel(const std::string& name, ModelKind kind, JsonWriter* json) const {
  json->BeginObject();
  json->Key("id").String(name);
  json->Key("object").String("model");
  json->Key("created").Int(created_);
  json->Key("owned_by").String("lorica");
  json->Key("parent").StringOrNull(kind == ModelKind::kBase ? "" : base_name());
  json->EndObject();
}

std::string OpenAiApi::ModelsBody() const {
  JsonWriter json;
  json.BeginObject();
  json.Key("object").String("list");
  json.Key("data").BeginArray();
  for (const std::string& name : options_.base_names) WriteModel(name, ModelKind::kBase, &json);
  for (const auto& version : options_.engine->registry().List()) {
    WriteModel(version->name(), ModelKind::kAdapter, &json);
  }
  json.EndArray();
  json.EndObject();
  return json.Take();
}

ApiResult<std::string> OpenAiApi::ModelBody(const std::string& name) const {
  const bool is_base = IsBaseName(name);
  if (!is_base) {
    Result<lora::AdapterRef> version = options_.engine->registry().Acquire(name);
    if (!version.ok()) return ToApiError(version.status(), "model");
  }
  JsonWriter json;
  WriteModel(name, is_base ? ModelKind::kBase : ModelKind::kAdapter, &json);
  return json.Take();
}

}  // namespace lorica::server
