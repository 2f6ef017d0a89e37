// TokenizerConfig: what tokenizer_config.json, special_tokens_map.json and chat_template.jinja add
// to tokenizer.json. A plain value; Parse is pure and safe on any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lorica/base/status.h"
#include "lorica/formats/added_tokens.h"

namespace lorica::formats {

class JsonObjectReader;

// The flags and the content of one added token as both files write it.
Result<AddedToken> ReadAddedToken(const JsonObjectReader& fields, int32_t id);

struct TokenizerConfig {
  // Text of the three files; nothing for one that is not there.
  struct Files {
    std::optional<std::string> tokenizer_config = {};
    std::optional<std::string> special_tokens_map = {};
    std::optional<std::string> chat_template = {};
  };

  // INVALID_ARGUMENT names the file and the field.
  static Result<TokenizerConfig> Parse(const Files& files);

  std::optional<std::string> bos_token, eos_token;
  // Other tokens that have a role (unk, pad, additional ones), all special where they exist.
  std::vector<std::string> other_special;
  // Present when the file says it; then they replace the post-processor's template.
  std::optional<bool> add_bos, add_eos;
  // added_tokens_decoder, by id: its flags win over those of tokenizer.json.
  std::map<int32_t, AddedToken> added;
  // The one named "default" of a list; chat_template.jinja wins over the config.
  std::optional<std::string> chat_template;
};

}  // namespace lorica::formats
