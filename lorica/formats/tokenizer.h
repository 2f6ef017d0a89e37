// Tokenizer: text to token ids and back, for byte-level BPE tokenizers as Hugging Face's
// tokenizer.json and GGUF metadata describe them. Ids equal those of Hugging Face's `tokenizers`
// on the same file. Immutable once loaded and shared; any thread may call every method.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lorica/base/status.h"

namespace lorica::formats {

class GgufFile;
struct TokenizerParts;  // tokenizer_parts.h: what a reader fills in

struct EncodeOptions {
  // Adds what the post-processor's template adds (a BOS, mostly). False for text that a chat
  // template has made, which holds its own BOS.
  bool add_special_tokens = true;
  // False: the text of special tokens is ordinary text (a user may not forge them).
  bool parse_special = true;
};

struct DecodeOptions {
  bool skip_special = true;
};

class Tokenizer {
 public:
  // INVALID_ARGUMENT for a contradiction in `parts`, which the message names.
  static Result<std::shared_ptr<const Tokenizer>> Create(TokenizerParts parts);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // INVALID_ARGUMENT if `text` is not UTF-8 (the message gives the byte), OUT_OF_RANGE if the
  // file's split pattern passes its match limit on this text. Time is O(n log n) in its length.
  Result<std::vector<int32_t>> Encode(std::string_view text, EncodeOptions options = {}) const;

  // The text of `ids`, always UTF-8: U+FFFD stands for bytes that are none. Ids without a token
  // are passed over. For a stream of tokens use TokenBytes and Utf8Stream (utf8.h).
  std::string Decode(std::span<const int32_t> ids, DecodeOptions options = {}) const;

  // The bytes that a token adds to the text, perhaps a part of a character; "" without a token.
  const std::string& TokenBytes(int32_t id) const;

  // An added token marked special, which Decode passes over.
  bool IsSpecial(int32_t id) const;

  // One past the largest id. A model's logits may be wider (padding) and never narrower.
  int32_t vocab_size() const;

  // The id of an added token with this content, else of the vocabulary's token with these bytes
  // (" the", not "Ġthe").
  std::optional<int32_t> TokenId(std::string_view text) const;

  std::optional<int32_t> bos_id() const;
  // The tokenizer's own end tokens; generation_config.json may name more.
  const std::vector<int32_t>& eos_ids() const;
  // The text of a Jinja template, the one named "default" where the file holds several.
  const std::optional<std::string>& chat_template() const;
  // Whether Encode with add_special_tokens puts bos_id() first.
  bool adds_bos() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<const State> state);

  std::unique_ptr<const State> state_;
};

// From a model folder: tokenizer.json, and where present tokenizer_config.json,
// special_tokens_map.json and chat_template.jinja. UNIMPLEMENTED names a component or a value that
// is not served, INVALID_ARGUMENT what is malformed.
Result<std::shared_ptr<const Tokenizer>> LoadTokenizerFolder(const std::string& folder);

// From a GGUF file's metadata: model "gpt2" with a known `tokenizer.ggml.pre`.
Result<std::shared_ptr<const Tokenizer>> LoadTokenizerGguf(const GgufFile& file);

}  // namespace lorica::formats
