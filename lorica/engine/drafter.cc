#include "lorica/engine/drafter.h"

#include <algorithm>

namespace lorica::engine {
namespace {

constexpr double kLearning = 0.15;   // weight of the latest guess
constexpr double kRecovery = 0.005;  // a step

}  // namespace

Drafter::Drafter(int64_t most_tokens) : index_(most_tokens) { draft_.reserve(kMostDraft); }

std::span<const int32_t> Drafter::Propose(std::span<const int32_t> text, int32_t most,
                                          DraftWorth* worth) {
  draft_.clear();
  index_.Extend(text);
  const NgramIndex::Match match = index_.Find(text);
  if (match.length == 0) return draft_;
  class_ = 0;
  while (match.length >= kClassEnd[class_]) ++class_;
  double& learnt = chance_[class_];
  const auto size = static_cast<int32_t>(text.size());
  double chance = 1.0;
  for (int32_t at = match.next; at < match.next + std::min(most, kMostDraft); ++at) {
    chance *= learnt;
    if (!worth->Take(chance)) break;
    // Past the end of the text the draft goes on with itself: a loop is guessed whole.
    draft_.push_back(at < size ? text[static_cast<size_t>(at)]
                               : draft_[static_cast<size_t>(at - size)]);
  }
  // So that a class that was given up is tried again, some tens of steps later.
  if (draft_.empty()) learnt += kRecovery * (kPrior[class_] - learnt);
  return draft_;
}

void Drafter::Learn(int32_t drafted, int32_t right) {
  double& learnt = chance_[class_];
  const int32_t judged = std::min(drafted, right + 1);
  for (int32_t i = 0; i < judged; ++i) learnt += kLearning * ((i < right ? 1.0 : 0.0) - learnt);
}

}  // namespace lorica::engine
