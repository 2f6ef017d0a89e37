// Sampler: one token from one row of logits. Exact and deterministic: the result is a function of
// the row, the request's parameters, the tokens that the sequence has seen, and (seed, position);
// sums run in double and in a fixed order, so neither the batch nor the thread can matter.
// Pure but for the scratch; each thread brings its own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lorica/engine/request.h"
#include "lorica/engine/token_counts.h"
#include "lorica/kernels/params.h"

namespace lorica::engine {

// Reused from row to row.
struct SamplerScratch {
  struct Candidate {
    double logit = 0.0;   // after every processor, before temperature
    double weight = 0.0;  // exp((logit - greatest) / temperature)
    int32_t id = 0;
  };
  std::vector<double> logits;  // [V]
  std::vector<Candidate> candidates;
};

struct SampleInput {
  std::span<const float> logits;  // [V], finite
  const kernels::RowStats* stats = nullptr;
  const SamplingParams* params = nullptr;
  const TokenCounts* counts = nullptr;
  std::span<const int32_t> forbidden;  // never chosen: what ends the answer, before min_tokens
  uint64_t seed = 0;
  int64_t position = 0;              // absolute position of the token that is chosen
  std::span<const int32_t> guessed;  // generated after what `counts` knows
};

// Order, as vLLM's: forbidden tokens and logit_bias, penalties; temperature 0 takes the greatest
// (ties to the lower id); else temperature, min_p, top_k, top_p, one draw.
int32_t SampleToken(const SampleInput& input, SamplerScratch* scratch);

}  // namespace lorica::engine
