// Log-probabilities: the log-softmax of a row of raw logits, before any processing of the sampler,
// as clients of `logprobs` expect it. Pure functions.
#pragma once

#include <cstdint>
#include <span>

#include "lorica/engine/request.h"
#include "lorica/kernels/params.h"

namespace lorica::engine {

// `token` with its log-probability and the `top` best of the row (at most V), ties to the lower
// id. `logits` [V] are finite and `stats` are theirs.
TokenInfo MakeTokenInfo(std::span<const float> logits, const kernels::RowStats& stats,
                        int32_t token, int32_t top);

}  // namespace lorica::engine
