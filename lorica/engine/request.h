// Request: what a caller submits, and the events that come back. Plain values; a Request is moved
// into the engine, events are moved out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lorica/base/status.h"

namespace lorica::lora {
class Version;
}

namespace lorica::engine {

struct RequestId {
  uint64_t value = 0;
  bool operator==(const RequestId&) const = default;
  auto operator<=>(const RequestId&) const = default;
};

// Names are OpenAI's and vLLM's. Defaults are resolved by the caller (request, then the adapter's,
// then the model's generation_config.json).
struct SamplingParams {
  double temperature = 1.0;  // 0: greedy
  int32_t top_k = 0;         // 0: all; exactly top_k remain, ties to the lower id
  double top_p = 1.0;
  double min_p = 0.0;
  double presence_penalty = 0.0;
  double frequency_penalty = 0.0;
  double repetition_penalty = 1.0;  // over prompt and output
  std::map<int32_t, double> logit_bias;
  std::optional<uint64_t> seed;  // given one at Submit when absent
  int32_t max_tokens = 16;
  int32_t min_tokens = 0;
  bool ignore_eos = false;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;
  bool include_stop = false;        // leave the stop string in the text
  std::optional<int32_t> logprobs;  // N best beside the chosen token
  bool echo = false;                // prompt_tokens come back, with log-probabilities if asked for
};

struct Request {
  std::vector<int32_t> prompt;  // at least one token
  std::string adapter;          // empty: the base model
  // The version to run with; null: the current one of `adapter`. So that several requests of one
  // client are of one version.
  std::shared_ptr<lora::Version> version;
  double adapter_weight = 1.0;  // multiplies the adapter's scale
  SamplingParams sampling;
};

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0.0f;  // log-softmax of the raw logits
};

struct TokenInfo {
  int32_t token = 0;
  // Absent for the first token of a prompt, and when none were asked for.
  std::optional<float> logprob;
  std::vector<TokenLogprob> top;  // N best, best first, ties to the lower id
};

enum class FinishReason : uint8_t { kNone, kStop, kLength, kCancelled, kError };
std::string_view FinishReasonName(FinishReason reason);

// What one step added to a request.
struct Event {
  RequestId id;
  std::vector<TokenInfo> prompt_tokens;  // with echo: once, with the first token or the end
  std::vector<TokenInfo> tokens;         // generated, an end or stop token included
  // Of the generated tokens alone (the caller holds the prompt): whole UTF-8, stop strings held
  // back and cut, special tokens passed over. Events' texts together are the answer.
  std::string text;
  FinishReason finish = FinishReason::kNone;
  std::string stop_reason;  // the stop string or "token_id:N" that ended it, empty otherwise
  Status status;            // kError: why
};

// Called on the engine thread; must not block.
using EventSink = std::function<void(Event)>;

}  // namespace lorica::engine
