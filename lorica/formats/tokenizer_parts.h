// TokenizerParts: what a reader of a tokenizer file hands to Tokenizer::Create. A plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lorica/formats/added_tokens.h"
#include "lorica/formats/bpe.h"
#include "lorica/formats/normalizer.h"
#include "lorica/formats/pre_tokenizer.h"

namespace lorica::formats {

struct TokenizerParts {
  Normalizer normalizer = Normalizer::kNone;
  PreTokenizer pre_tokenizer;
  Bpe model;
  AddedTokens added;
  // What add_special_tokens puts around the text.
  std::vector<int32_t> prefix = {};
  std::vector<int32_t> suffix = {};
  std::optional<int32_t> bos = {};
  std::vector<int32_t> eos = {};
  std::optional<std::string> chat_template = {};
};

}  // namespace lorica::formats
