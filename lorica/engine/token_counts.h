// TokenCounts: which tokens a sequence has seen, as the three penalties need it. Owned by its
// sequence; written by the engine thread between steps.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "lorica/engine/request.h"

namespace lorica::engine {

class TokenCounts {
 public:
  // Remembers nothing when `params` has no penalty.
  TokenCounts(const SamplingParams& params, std::span<const int32_t> prompt);

  void AddOutput(int32_t token);
  // For each token seen, as vLLM and transformers do: divides (multiplies, where it is negative)
  // its logit by the repetition penalty if it is in the prompt or the output; then takes away
  // frequency penalty times its count in the output, and the presence penalty if it is there.
  // `guessed` are taken as further output.
  void Penalise(std::span<const int32_t> guessed, std::span<double> logits) const;

 private:
  void PenaliseToken(int32_t token, int64_t output_count, std::span<double> logits) const;

  double repetition_;
  double frequency_;
  double presence_;
  bool active_;
  std::unordered_map<int32_t, int32_t> output_count_;  // 0: in the prompt alone
};

}  // namespace lorica::engine
