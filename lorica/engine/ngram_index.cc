#include "lorica/engine/ngram_index.h"

#include <algorithm>
#include <bit>

#include "lorica/base/check.h"

namespace lorica::engine {
namespace {

// Tokens that agree before the positions `a` and `b`.
int32_t AgreeingTokens(std::span<const int32_t> text, int32_t a, int32_t b) {
  const int32_t most = std::min({a, b, NgramIndex::kMostMatch});
  int32_t count = 0;
  while (count < most &&
         text[static_cast<size_t>(a - count - 1)] == text[static_cast<size_t>(b - count - 1)]) {
    ++count;
  }
  return count;
}

}  // namespace

NgramIndex::NgramIndex(int64_t most_tokens) {
  const auto buckets = std::bit_ceil(static_cast<uint32_t>(std::max<int64_t>(most_tokens, 16)));
  shift_ = 32 - std::countr_zero(buckets);
  latest_.assign(buckets, 0);
  previous_.reserve(static_cast<size_t>(most_tokens));
}

size_t NgramIndex::Bucket(std::span<const int32_t> text, int32_t end) const {
  uint32_t hash = 0;
  for (int32_t token : text.subspan(static_cast<size_t>(end - kLeastMatch), kLeastMatch)) {
    hash = (hash ^ static_cast<uint32_t>(token)) * 0x9E3779B1u;
    hash ^= hash >> 15;
  }
  return (hash * 0x9E3779B1u) >> shift_;
}

void NgramIndex::Extend(std::span<const int32_t> text) {
  while (previous_.size() < text.size()) {
    const auto end = static_cast<int32_t>(previous_.size()) + 1;
    if (end < kLeastMatch) {
      previous_.push_back(0);
      continue;
    }
    int32_t& latest = latest_[Bucket(text, end)];
    previous_.push_back(latest);
    latest = end;
  }
}

NgramIndex::Match NgramIndex::Find(std::span<const int32_t> text) const {
  LORICA_CHECK(text.size() == previous_.size());
  Match best;
  if (text.empty()) return best;
  const auto size = static_cast<int32_t>(text.size());
  int32_t place = previous_.back();
  for (int32_t i = 0; i < kCandidates && place > 0; ++i) {
    const int32_t length = AgreeingTokens(text, place, size);
    // Equal hashes do not mean equal tokens.
    if (length >= kLeastMatch && length > best.length) best = {place, length};
    if (length == kMostMatch) break;
    place = previous_[static_cast<size_t>(place - 1)];
  }
  return best;
}

}  // namespace lorica::engine
