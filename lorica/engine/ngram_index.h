// NgramIndex: where in a text its latest tokens stood before. The index of LZ77 compressors: a
// table of the latest position of each hash of a few tokens, and for every position the one before
// it with the same hash. A token costs one store in each, a search at most kCandidates comparisons
// of at most kMostMatch tokens, whatever the length of the text; nothing is allocated after the
// constructor. Owned by its drafter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lorica::engine {

class NgramIndex {
 public:
  static constexpr int32_t kLeastMatch = 2;
  static constexpr int32_t kMostMatch = 32;
  static constexpr int32_t kCandidates = 8;

  // For a text of at most `most_tokens`.
  explicit NgramIndex(int64_t most_tokens);

  // Indexes `text`, of which what was indexed before is a prefix.
  void Extend(std::span<const int32_t> text);

  struct Match {
    int32_t next = 0;    // the position after the earlier place
    int32_t length = 0;  // tokens that agree before it; 0: no such place
  };
  // The earlier place that agrees longest, at least in kLeastMatch tokens, with the end of the text
  // that was indexed; of equals the latest.
  Match Find(std::span<const int32_t> text) const;

 private:
  size_t Bucket(std::span<const int32_t> text, int32_t end) const;

  int shift_;                      // of a 32-bit hash to a bucket
  std::vector<int32_t> latest_;    // [buckets], the end of the latest n-gram, exclusive; 0: none
  std::vector<int32_t> previous_;  // [position of an n-gram's last token], likewise
};

}  // namespace lorica::engine
