// CompletionText: turns one choice's tokens into the text and the `logprobs` object of OpenAI's
// completions API. Belongs to one choice; used on the engine thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lorica/engine/request.h"
#include "lorica/formats/tokenizer.h"
#include "lorica/formats/utf8.h"
#include "lorica/server/json_writer.h"

namespace lorica::server {

// How a token is written where a text stands for it: its text, or "token_id:N" where it is no
// UTF-8 of its own.
std::string TokenName(const formats::Tokenizer& tokenizer, int32_t token);

class LogprobsWriter {
 public:
  explicit LogprobsWriter(std::shared_ptr<const formats::Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)) {}

  // The choice's text begins with this prompt, given as text: special tokens that stand in it
  // count, other than generated ones and those of the tokenizer's own adding, such as the first
  // where `adds_first`.
  void BeginWith(std::string prompt, bool adds_first);

  // Writes {"tokens", "token_logprobs", "top_logprobs", "text_offset"} for `tokens`, which follow
  // those of the calls before. Offsets count code points of the choice's text.
  void Write(std::span<const engine::TokenInfo> tokens, JsonWriter* json);

 private:
  void WriteTop(const engine::TokenInfo& token, JsonWriter* json) const;
  // The offset at which the token stands; then it is passed.
  int64_t Pass(int32_t token);

  std::shared_ptr<const formats::Tokenizer> tokenizer_;
  std::string prompt_;
  size_t prompt_at_ = 0;  // bytes of it passed
  bool skip_next_ = false;
  formats::Utf8Stream stream_;
  int64_t offset_ = 0;
};

}  // namespace lorica::server
