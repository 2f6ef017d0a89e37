#include "lorica/engine/logprobs.h"

#include <algorithm>
#include <cmath>

namespace lorica::engine {

TokenInfo MakeTokenInfo(std::span<const float> logits, const kernels::RowStats& stats,
                        int32_t token, int32_t top) {
  const double log_sum = std::log(stats.sum_exp);
  auto logprob = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit) - static_cast<double>(stats.max) -
                              log_sum);
  };
  TokenInfo info;
  info.token = token;
  info.logprob = logprob(logits[static_cast<size_t>(token)]);
  if (top <= 0) return info;

  // Kept best first while walking up the ids: an equal logit goes behind the lower id. Logits
  // stand in for log-probabilities until the end, since rounding to f32 could make equals of them.
  std::vector<TokenLogprob>& best = info.top;
  const size_t want = std::min(static_cast<size_t>(top), logits.size());
  best.reserve(want + 1);
  for (size_t id = 0; id < logits.size(); ++id) {
    const float logit = logits[id];
    if (best.size() == want && !(logit > best.back().logprob)) continue;
    const auto place =
        std::upper_bound(best.begin(), best.end(), logit,
                         [](float value, const TokenLogprob& t) { return value > t.logprob; });
    best.insert(place, {static_cast<int32_t>(id), logit});
    if (best.size() > want) best.pop_back();
  }
  for (TokenLogprob& entry : best) entry.logprob = logprob(entry.logprob);
  return info;
}

}  // namespace lorica::engine
