#include "lorica/engine/token_counts.h"

#include <algorithm>

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

void TokenCounts::Penalise(std::span<const int32_t> guessed, std::span<double> logits) const {
  if (!active_) return;
  // Each entry touches its own logit alone, so the map's order changes no bit.
  for (const auto& [token, count] : output_count_) {
    PenaliseToken(token, count + std::count(guessed.begin(), guessed.end(), token), logits);
  }
  for (size_t i = 0; i < guessed.size(); ++i) {
    const auto first = std::find(guessed.begin(), guessed.end(), guessed[i]);
    const bool seen_before = first != guessed.begin() + static_cast<ptrdiff_t>(i);
    if (seen_before || output_count_.count(guessed[i]) > 0) continue;
    PenaliseToken(guessed[i], std::count(guessed.begin(), guessed.end(), guessed[i]), logits);
  }
}

void TokenCounts::PenaliseToken(int32_t token, int64_t output_count,
                                std::span<double> logits) const {
  double& logit = logits[static_cast<size_t>(token)];
  logit = logit > 0.0 ? logit / repetition_ : logit * repetition_;
  if (output_count > 0) logit -= frequency_ * static_cast<double>(output_count) + presence_;
}

}  // namespace lorica::engine
