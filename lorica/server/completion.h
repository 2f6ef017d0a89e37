// Completion: one /v1/completions request in flight: its choices (prompts x n) run as engine
// requests, and their events become one JSON body or a stream of chunks. Made by OpenAiApi; its
// events and callbacks come on the engine thread; Cancel may be called from any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lorica/engine/engine.h"
#include "lorica/formats/tokenizer.h"
#include "lorica/server/completion_request.h"
#include "lorica/server/completion_text.h"

namespace lorica::server {

// Called on the engine thread; must not block.
struct CompletionCallbacks {
  // A streamed chunk's JSON, without framing. Streaming requests only.
  std::function<void(std::string chunk)> on_chunk;
  // The end: for a streaming request status 200 and an empty body, or an error's body.
  std::function<void(int http_status, std::string body)> on_done;
};

class Completion : public std::enable_shared_from_this<Completion> {
 public:
  struct Context {
    engine::Engine* engine = nullptr;
    std::shared_ptr<const formats::Tokenizer> tokenizer;
    std::string id;           // "cmpl-..."
    int64_t created = 0;      // seconds since 1970
    std::string fingerprint;  // system_fingerprint
  };

  Completion(Context context, CompletionRequest request, CompletionCallbacks callbacks);

  // Submits every choice, all with this version. On an error nothing is left in flight; callbacks
  // of choices that were submitted before it may have come, and no other comes.
  Status Start(const lora::AdapterRef& adapter);
  // Ends it early: the client is gone. A callback that is running ends; no other comes.
  void Cancel();

 private:
  struct Choice {
    std::vector<int32_t> prompt;
    std::string text;                       // collected when not streaming
    std::vector<engine::TokenInfo> tokens;  // prompt first with echo
    std::vector<int32_t> token_ids;         // generated
    std::string echo_text;                  // prompt text that echo puts in front
    bool echoed = false;
    engine::FinishReason finish = engine::FinishReason::kNone;
    std::string stop_reason;
    std::unique_ptr<LogprobsWriter> logprobs;
    int64_t generated = 0;
  };

  Status Prepare();
  void OnEvent(size_t index, engine::Event event);
  void WriteHead(JsonWriter* json) const;
  void WriteUsage(JsonWriter* json) const;
  void WriteChoice(size_t index, Choice* choice, JsonWriter* json) const;
  std::string Chunk(size_t index, Choice* choice, engine::Event event) const;
  std::string Body();
  void Finish(int http_status, std::string body);

  const Context context_;
  const CompletionRequest request_;
  const CompletionCallbacks callbacks_;
  std::vector<Choice> choices_;  // prompts x n, prompt-major
  size_t open_ = 0;              // choices that have not ended
  std::atomic<bool> failed_{false};

  std::mutex mutex_;
  std::vector<engine::RequestId> ids_;  // guarded by mutex_
  std::atomic<bool> cancelled_{false};
};

}  // namespace lorica::server
