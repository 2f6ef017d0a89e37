#include "lorica/engine/admission.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "lorica/engine/kv_allocator.h"

namespace lorica::engine {
namespace {

std::string Number(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return std::string(text, end);
}

// `good` is false for a NaN too: callers write what must hold.
Status Expect(bool good, const char* field, double value, const char* expected) {
  if (good) return OkStatus();
  return InvalidArgument(std::string(field) + " is " + Number(value) + "; expected " + expected);
}

Status CheckToken(int64_t token, int32_t vocab, const std::string& where) {
  if (token >= 0 && token < vocab) return OkStatus();
  return InvalidArgument(where + " is token " + std::to_string(token) +
                         "; expected an id of the vocabulary, 0 to " + std::to_string(vocab - 1));
}

Status CheckWeight(const Request& request) {
  if (!std::isfinite(request.adapter_weight)) {
    return InvalidArgument("lora scale is " + Number(request.adapter_weight) +
                           "; expected a finite number");
  }
  if (request.adapter.empty() && request.adapter_weight != 1.0) {
    return InvalidArgument("lora scale is " + Number(request.adapter_weight) +
                           " for the base model; expected an adapter");
  }
  return OkStatus();
}

Status CheckLengths(const Request& request, const RequestLimits& limits) {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t max_tokens = request.sampling.max_tokens;
  if (prompt == 0) return InvalidArgument("the prompt has no tokens; expected at least one");
  if (prompt > limits.max_model_len) {
    return OutOfRange("the prompt has " + std::to_string(prompt) +
                      " tokens, more than the context of " + std::to_string(limits.max_model_len));
  }
  if (prompt + max_tokens > limits.max_model_len) {
    return OutOfRange("the prompt has " + std::to_string(prompt) + " tokens and max_tokens is " +
                      std::to_string(max_tokens) + ", together more than the context of " +
                      std::to_string(limits.max_model_len));
  }
  // The last token is never fed back, so it needs no K and V.
  const int32_t pages = PagesFor(prompt + std::max<int64_t>(max_tokens - 1, 0));
  if (pages > limits.kv_pages) {
    return OutOfRange("the request may need " + std::to_string(pages) + " K/V pages (" +
                      std::to_string(prompt) + " prompt tokens and max_tokens " +
                      std::to_string(max_tokens) + "), and the engine has " +
                      std::to_string(limits.kv_pages) + " in all (--kv-bytes)");
  }
  return OkStatus();
}

Status CheckNumbers(const SamplingParams& s) {
  LORICA_RETURN_IF_ERROR(Expect(s.max_tokens >= 0, "max_tokens", s.max_tokens, "0 or more"));
  LORICA_RETURN_IF_ERROR(Expect(s.min_tokens >= 0 && s.min_tokens <= s.max_tokens, "min_tokens",
                                s.min_tokens, "0 to max_tokens"));
  LORICA_RETURN_IF_ERROR(Expect(s.temperature >= 0.0 && std::isfinite(s.temperature), "temperature",
                                s.temperature, "a finite number, 0 or more"));
  LORICA_RETURN_IF_ERROR(Expect(s.top_k >= 0, "top_k", s.top_k, "0 (all tokens) or more"));
  LORICA_RETURN_IF_ERROR(
      Expect(s.top_p > 0.0 && s.top_p <= 1.0, "top_p", s.top_p, "more than 0, at most 1"));
  LORICA_RETURN_IF_ERROR(Expect(s.min_p >= 0.0 && s.min_p <= 1.0, "min_p", s.min_p, "0 to 1"));
  LORICA_RETURN_IF_ERROR(Expect(std::fabs(s.presence_penalty) <= 2.0, "presence_penalty",
                                s.presence_penalty, "-2 to 2"));
  LORICA_RETURN_IF_ERROR(Expect(std::fabs(s.frequency_penalty) <= 2.0, "frequency_penalty",
                                s.frequency_penalty, "-2 to 2"));
  LORICA_RETURN_IF_ERROR(Expect(s.repetition_penalty >= 0.01 && s.repetition_penalty <= 100.0,
                                "repetition_penalty", s.repetition_penalty, "0.01 to 100"));
  if (s.logprobs.has_value()) {
    LORICA_RETURN_IF_ERROR(Expect(*s.logprobs >= 0 && *s.logprobs <= kMaxLogprobs, "logprobs",
                                  *s.logprobs, "0 to 256"));
  }
  return OkStatus();
}

Status CheckLists(const SamplingParams& s, const RequestLimits& limits) {
  if (s.logit_bias.size() > kMaxBiasedTokens) {
    return InvalidArgument("logit_bias has " + std::to_string(s.logit_bias.size()) +
                           " entries; expected at most " + std::to_string(kMaxBiasedTokens));
  }
  for (const auto& [token, bias] : s.logit_bias) {
    LORICA_RETURN_IF_ERROR(CheckToken(token, limits.vocab, "a key of logit_bias"));
    LORICA_RETURN_IF_ERROR(
        Expect(std::fabs(bias) <= 100.0, "a value of logit_bias", bias, "-100 to 100"));
  }
  for (int32_t token : s.stop_token_ids) {
    LORICA_RETURN_IF_ERROR(CheckToken(token, limits.vocab, "an entry of stop_token_ids"));
  }
  if (s.stop.size() > kMaxStopStrings) {
    return InvalidArgument("stop has " + std::to_string(s.stop.size()) +
                           " strings; expected at most " + std::to_string(kMaxStopStrings));
  }
  for (const std::string& stop : s.stop) {
    if (stop.empty() || stop.size() > kMaxStopBytes) {
      return InvalidArgument("a stop string has " + std::to_string(stop.size()) +
                             " bytes; expected 1 to " + std::to_string(kMaxStopBytes));
    }
  }
  if (!s.stop.empty() && !limits.has_tokenizer) {
    return InvalidArgument(
        "stop strings were given, and this engine has no tokenizer to make text");
  }
  return OkStatus();
}

}  // namespace

Status CheckRequest(const Request& request, const RequestLimits& limits) {
  LORICA_RETURN_IF_ERROR(CheckWeight(request));
  LORICA_RETURN_IF_ERROR(CheckNumbers(request.sampling));
  LORICA_RETURN_IF_ERROR(CheckLists(request.sampling, limits));
  LORICA_RETURN_IF_ERROR(CheckLengths(request, limits));
  for (size_t i = 0; i < request.prompt.size(); ++i) {
    const int32_t token = request.prompt[i];
    if (token >= 0 && token < limits.vocab) continue;
    return CheckToken(token, limits.vocab, "entry " + std::to_string(i) + " of the prompt");
  }
  return OkStatus();
}

}  // namespace lorica::engine
