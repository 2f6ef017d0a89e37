// CheckRequest: whether the engine can serve a request at all, asked before it is queued, so that a
// bad one never reaches a step. Pure; any thread.
#pragma once

#include <cstdint>

#include "lorica/base/status.h"
#include "lorica/engine/request.h"

namespace lorica::engine {

inline constexpr int32_t kMaxLogprobs = 256;      // N best a token
inline constexpr size_t kMaxStopStrings = 64;     // each is searched for at every token
inline constexpr size_t kMaxStopBytes = 4096;     // of one stop string
inline constexpr size_t kMaxBiasedTokens = 4096;  // entries of logit_bias

struct RequestLimits {
  int32_t vocab = 0;
  int64_t max_model_len = 0;
  int32_t kv_pages = 0;
  bool has_tokenizer = true;
};

// INVALID_ARGUMENT naming the field, its value and what was expected; OUT_OF_RANGE with both
// figures for what is longer than the context or than all K/V pages together.
Status CheckRequest(const Request& request, const RequestLimits& limits);

}  // namespace lorica::engine
