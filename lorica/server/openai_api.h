// OpenAiApi: OpenAI's calls on one engine, without a transport: HTTP and batch files both speak
// to it. Owned by Service. Any thread may call it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lorica/engine/engine.h"
#include "lorica/formats/tokenizer.h"
#include "lorica/model/model.h"
#include "lorica/server/api_error.h"
#include "lorica/server/completion.h"
#include "lorica/server/completion_request.h"
#include "lorica/server/generation_defaults.h"

namespace lorica::server {

// Who carries the answer: a batch file has no stream.
enum class TransportKind : uint8_t { kHttp, kBatch };

class OpenAiApi {
 public:
  struct Options {
    engine::Engine* engine = nullptr;
    const model::Model* model = nullptr;
    std::shared_ptr<const formats::Tokenizer> tokenizer;
    std::vector<std::string> base_names;  // --served-model-name; the first is shown
    GenerationDefaults model_defaults;
  };
  explicit OpenAiApi(Options options);

  // The sampling defaults of an adapter's own generation_config.json: given before the version of
  // this digest is published.
  void SetAdapterDefaults(const std::string& name, const std::string& digest,
                          GenerationDefaults defaults);
  // After a change is published: forgets those of the name's other versions; of all of them where
  // `digest` is empty.
  void KeepAdapterDefaults(const std::string& name, const std::string& digest);

  // POST /v1/completions. An ApiError when nothing was started.
  ApiResult<std::shared_ptr<Completion>> StartCompletion(std::string_view body,
                                                         CompletionCallbacks callbacks,
                                                         TransportKind transport);
  // GET /v1/models.
  std::string ModelsBody() const;
  // GET /v1/models/{name}; 404 for a name that is not served.
  ApiResult<std::string> ModelBody(const std::string& name) const;

  bool IsBaseName(std::string_view name) const;
  const std::string& base_name() const { return options_.base_names.front(); }

 private:
  // The version that is current, and with it its defaults over the model's.
  ApiResult<GenerationDefaults> Acquire(const std::string& name, lora::AdapterRef* adapter) const;
  std::string Fingerprint(const lora::AdapterRef& adapter) const;
  enum class ModelKind : uint8_t { kBase, kAdapter };
  void WriteModel(const std::string& name, ModelKind kind, JsonWriter* json) const;

  const Options options_;
  const int64_t created_;
  std::atomic<uint64_t> next_id_{1};
  mutable std::shared_mutex mutex_;
  // By name and digest; guarded by mutex_.
  std::map<std::pair<std::string, std::string>, GenerationDefaults> adapter_defaults_;
};

}  // namespace lorica::server
