// PeftPattern: one key of a PEFT rank_pattern or alpha_pattern. PEFT 0.21 asks Python for
// re.match(r"(.*\.)?(KEY)$", module path); this class answers the same for the part of Python's
// syntax that it accepts, and refuses the rest. Owned by the config; immutable, any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lorica/base/status.h"

namespace lorica::formats {

// The longest key read, in bytes.
inline constexpr size_t kMaxPatternBytes = 1024;

class PeftPattern {
 public:
  // INVALID_ARGUMENT for what is no regular expression, UNIMPLEMENTED for back-references,
  // look-behind, flags and escapes that Python lacks, OUT_OF_RANGE over kMaxPatternBytes. The
  // message quotes the key.
  static Result<PeftPattern> Compile(std::string_view key);

  // Whether the key picks this module path (without `base_model.model.`). OUT_OF_RANGE when the
  // match takes more steps or memory than a key of a sane adapter needs.
  Result<bool> Matches(std::string_view module_path) const;

  const std::string& key() const { return key_; }
  // True for a key of letters, digits, '_', '-' and '.' alone, after '^' or not: it needs no
  // regex engine.
  bool plain() const { return code_ == nullptr; }

 private:
  struct Code;
  std::string key_;
  std::shared_ptr<const Code> code_;
};

// The key as an error message shows it: quoted, control bytes escaped, cut at 80 bytes.
std::string QuoteForMessage(std::string_view text);

}  // namespace lorica::formats
