#include "lorica/engine/token_counts.h"

namespace lorica::engine {

TokenCounts::TokenCounts(const SamplingParams& params, std::span<const int32_t> prompt)
    : repetition_(params.repetition_penalty),
      frequency_(params.frequency_penalty),
      presence_(params.presence_penalty),
      active_(repetition_ != 1.0 || frequency_ != 0.0 || presence_ != 0.0) {
  if (!active_) return;
  for (int32_t token : prompt) output_count_.try_emplace(token, 0);
}

void TokenCounts::AddOutput(int32_t token) {
  if (active_) ++output_count_[token];
}

void TokenCounts::Penalise(std::span<double> logits) const {
  // Each entry touches its own logit alone, so the map's order changes no bit.
  for (const auto& [token, count] : output_count_) {
    double& logit = logits[static_cast<size_t>(token)];
    logit = logit > 0.0 ? logit / repetition_ : logit * repetition_;
    if (count > 0) logit -= frequency_ * count + presence_;
  }
}

}  // namespace lorica::engine
