// CompletionRequest: the body of POST /v1/completions, checked field by field. A field that is
// not known is refused by name, as OpenAI does: never a silent no-op. Plain value.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lorica/base/status.h"
#include "lorica/engine/request.h"
#include "lorica/server/api_error.h"
#include "lorica/server/generation_defaults.h"

namespace lorica::server {

// A prompt as the client gave it: text, or token ids.
using Prompt = std::variant<std::string, std::vector<int32_t>>;

struct CompletionRequest {
  std::string model;            // the base's name or an adapter's
  std::vector<Prompt> prompts;  // at least one
  int32_t n = 1;
  bool stream = false;
  bool include_usage = false;
  bool return_token_ids = false;
  bool add_special_tokens = true;
  bool skip_special_tokens = true;
  engine::SamplingParams sampling;
  // `lora`: one adapter with a weight for its scale. Empty: the model's own, as it is.
  std::string lora_name;
  double lora_scale = 1.0;
};

// A request, or the error that its client gets.
template <typename T>
using ApiResult = std::variant<T, ApiError>;

// `defaults_of` gives the `model` field's: its adapter's over the model's; its error ends it.
using DefaultsOf = std::function<ApiResult<GenerationDefaults>(const std::string& model)>;
ApiResult<CompletionRequest> ParseCompletionRequestFor(std::string_view body,
                                                       const DefaultsOf& defaults_of);
ApiResult<CompletionRequest> ParseCompletionRequest(std::string_view body,
                                                    const GenerationDefaults& defaults);

}  // namespace lorica::server
