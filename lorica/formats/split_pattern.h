// SplitPattern: one regular expression of a tokenizer file. Such files mean Oniguruma's syntax
// (Ruby's); the part of it that PCRE2 reads alike is served, the rest refused at load. Immutable;
// any thread may call it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lorica/base/status.h"

namespace lorica::formats {

// A stretch of text that a pattern matched, or the gap before or after matches.
struct SplitSpan {
  size_t begin, end;
  bool match;
};

class SplitPattern {
 public:
  // INVALID_ARGUMENT for what is no regular expression, UNIMPLEMENTED for syntax that the two
  // engines read differently; the message quotes the pattern.
  static Result<SplitPattern> Compile(std::string_view regex);
  // The pattern that is exactly this text.
  static SplitPattern Literal(std::string_view text);

  // Cuts `text` (UTF-8; looked at alone, as if nothing were around it) into matches and gaps, in
  // order and without holes; an empty match is an empty span. OUT_OF_RANGE over the match limit.
  Status Cut(std::string_view text, std::vector<SplitSpan>* spans) const;

 private:
  struct Code;
  SplitPattern() = default;
  Status CutRegex(std::string_view text, std::vector<SplitSpan>* spans) const;

  std::string source_;
  std::shared_ptr<const Code> code_;  // null for a literal
};

}  // namespace lorica::formats
