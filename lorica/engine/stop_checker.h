// StopChecker: turns one request's generated tokens into text and decides when the answer ends.
// Order of the reasons: a stop token or an end token, a stop string, then the length. Owned by its
// sequence; the engine thread calls it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lorica/engine/request.h"
#include "lorica/formats/tokenizer.h"
#include "lorica/formats/utf8.h"

namespace lorica::engine {

// Text on its way out, held back where it may be the beginning of a stop string.
class StopStrings {
 public:
  StopStrings(std::vector<std::string> stops, bool include_stop);

  struct Outcome {
    std::string text;     // released now
    std::string matched;  // the stop string that ended it; empty: none did
  };
  // Adds `text`. Among stop strings that it completes the one that begins first ends the answer
  // (of equals the first in the list); with `may_stop` false they are ordinary text.
  Outcome Push(std::string_view text, bool may_stop);
  // The end for another reason: what was held back.
  std::string Flush();

 private:
  std::vector<std::string> stops_;
  bool include_stop_;
  std::string held_;  // a proper prefix of a stop string
};

class StopChecker {
 public:
  // `tokenizer` may be null: then there is no text, and the request has no stop strings.
  StopChecker(const SamplingParams& params, std::vector<int32_t> eos_ids,
              std::shared_ptr<const formats::Tokenizer> tokenizer);

  struct Verdict {
    std::string text;  // released by this token
    FinishReason finish = FinishReason::kNone;
    std::string stop_reason;
  };
  // The next generated token.
  Verdict Accept(int32_t token);

  // Token ids that end this request, ascending: what sampling must avoid before min_tokens.
  std::span<const int32_t> ending_tokens() const { return ending_tokens_; }
  int32_t generated() const { return generated_; }
  int32_t min_tokens() const { return min_tokens_; }

 private:
  Verdict End(FinishReason finish, std::string reason, std::string text);
  std::string TextOf(int32_t token);

  std::vector<int32_t> ending_tokens_;
  std::vector<int32_t> stop_token_ids_;  // ascending
  int32_t min_tokens_;
  int32_t max_tokens_;
  bool include_stop_;
  std::shared_ptr<const formats::Tokenizer> tokenizer_;
  formats::Utf8Stream utf8_;
  StopStrings strings_;
  int32_t generated_ = 0;
};

}  // namespace lorica::engine
