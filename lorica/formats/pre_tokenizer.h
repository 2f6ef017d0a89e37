// PreTokenizer: cuts text into the words that BPE merges inside, by the steps that a tokenizer
// file lists. Immutable; any thread may call it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lorica/base/status.h"
#include "lorica/formats/split_pattern.h"

namespace lorica::formats {

// What becomes of the matches of a Split.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct SplitStep {
  SplitPattern pattern;
  SplitBehavior behavior;
  bool invert;  // gaps count as matches and matches as gaps
};

// Cuts around numeric characters (Unicode's Nd, Nl, No), each for itself or in runs.
struct DigitsStep {
  bool individual;
};

// Puts a space before each piece that has none; the bytes themselves are left as they are.
struct PrefixSpaceStep {};

// Words: half-open ranges of `text`, none empty, in order. `text` is the input unless a step has
// put spaces in.
struct Words {
  struct Range {
    size_t begin, end;
  };
  std::string text;
  std::vector<Range> ranges;

  std::string_view word(size_t i) const {
    return std::string_view(text).substr(ranges[i].begin, ranges[i].end - ranges[i].begin);
  }
};

class PreTokenizer {
 public:
  using Step = std::variant<SplitStep, DigitsStep, PrefixSpaceStep>;

  explicit PreTokenizer(std::vector<Step> steps) : steps_(std::move(steps)) {}

  // `text` is UTF-8. OUT_OF_RANGE if a pattern passes its match limit.
  Result<Words> Cut(std::string_view text) const;

 private:
  std::vector<Step> steps_;
};

// The split of GPT-2, which ByteLevel with use_regex makes.
SplitStep Gpt2Split();

}  // namespace lorica::formats
