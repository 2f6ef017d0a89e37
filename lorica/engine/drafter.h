// Drafter: guesses the next tokens of a sequence from its own text, as many as are likely enough to
// be worth a row, and learns from how many were right. Owned by its sequence; the engine thread
// calls it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "lorica/engine/draft_worth.h"
#include "lorica/engine/ngram_index.h"

namespace lorica::engine {

class Drafter {
 public:
  static constexpr int32_t kMostDraft = 16;

  // For a text of at most `most_tokens`.
  explicit Drafter(int64_t most_tokens);

  // Indexes `text`, of which what was indexed before is a prefix.
  void Extend(std::span<const int32_t> text) { index_.Extend(text); }
  // What may follow `text`: at most `most` tokens, each of which took a row from `worth`. Valid
  // until the next call.
  std::span<const int32_t> Propose(std::span<const int32_t> text, int32_t most, DraftWorth* worth);
  // Of the `drafted` tokens proposed last, the first `right` came.
  void Learn(int32_t drafted, int32_t right);

 private:
  // How far the end of the text agrees with an earlier place tells most: by classes of it.
  static constexpr int32_t kClassEnd[] = {3, 5, 9, 17, 32, NgramIndex::kMostMatch + 1};
  static constexpr size_t kClasses = std::size(kClassEnd);
  // SmolLM2 over lists, code, prose and stories: 0.2 to 0.5, 0.4 to 0.7, 0.55 to 0.85, 0.65 to 0.9,
  // 0.9, 0.98.
  static constexpr std::array<double, kClasses> kPrior = {0.35, 0.5, 0.65, 0.75, 0.9, 0.95};

  NgramIndex index_;
  std::vector<int32_t> draft_;
  size_t class_ = 0;                              // of the match that `draft_` follows
  std::array<double, kClasses> chance_ = kPrior;  // that a guess is right after those before it
};

}  // namespace lorica::engine
