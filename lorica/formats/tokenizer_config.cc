#include "lorica/formats/tokenizer_config.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <charconv>

#include "lorica/formats/bpe.h"
#include "lorica/formats/json.h"
#include "lorica/formats/utf8.h"

namespace lorica::formats {
namespace {

namespace json = boost::json;

// A token is its text, or an object that holds it as "content".
Result<std::optional<std::string>> ReadToken(const JsonObjectReader& fields, std::string_view key) {
  const json::value* value = fields.Find(key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_object()) return fields.OptionalString(key);
  LORICA_ASSIGN_OR_RETURN(const JsonObjectReader token, fields.Object(key));
  return token.OptionalString("content");
}

Status ReadRoles(const JsonObjectReader& fields, TokenizerConfig* config) {
  for (const auto& [key, token] :
       {std::pair{"bos_token", &config->bos_token}, std::pair{"eos_token", &config->eos_token}}) {
    LORICA_ASSIGN_OR_RETURN(const auto content, ReadToken(fields, key));
    if (!token->has_value()) *token = content;
  }
  for (const std::string_view key : {"unk_token", "pad_token"}) {
    LORICA_ASSIGN_OR_RETURN(const auto content, ReadToken(fields, key));
    if (content) config->other_special.push_back(*content);
  }
  const json::value* more = fields.Find("additional_special_tokens");
  if (more == nullptr) return OkStatus();
  if (!more->is_array()) return fields.Wrong("additional_special_tokens", "an array");
  for (const json::value& token : more->get_array()) {
    const json::value* content =
        token.is_object() ? token.get_object().if_contains("content") : &token;
    if (content == nullptr || !content->is_string()) {
      return fields.Wrong("additional_special_tokens", "an array of tokens");
    }
    config->other_special.emplace_back(content->get_string().c_str(), content->get_string().size());
  }
  return OkStatus();
}

Status ReadAdded(const JsonObjectReader& fields, TokenizerConfig* config) {
  LORICA_ASSIGN_OR_RETURN(const auto decoder, fields.OptionalObject("added_tokens_decoder"));
  if (!decoder) return OkStatus();
  for (const auto& entry : decoder->object()) {
    const std::string_view key(entry.key().data(), entry.key().size());
    AddedToken token;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token.id);
    if (error != std::errc() || end != key.data() + key.size() || token.id < 0 ||
        token.id >= kMaxTokenIds) {
      return InvalidArgument(decoder->where() + ": expected a token id as the key, found \"" +
                             std::string(key.substr(0, 80)) + "\"");
    }
    LORICA_ASSIGN_OR_RETURN(const JsonObjectReader object, decoder->Object(key));
    LORICA_ASSIGN_OR_RETURN(AddedToken read, ReadAddedToken(object, token.id));
    config->added.insert_or_assign(token.id, std::move(read));
  }
  return OkStatus();
}

Status ReadChatTemplate(const JsonObjectReader& fields, TokenizerConfig* config) {
  const json::value* value = fields.Find("chat_template");
  if (value == nullptr || !value->is_array()) {
    LORICA_ASSIGN_OR_RETURN(config->chat_template, fields.OptionalString("chat_template"));
    return OkStatus();
  }
  const std::string where = fields.where() + ": \"chat_template\"";
  for (const json::value& item : value->get_array()) {
    LORICA_ASSIGN_OR_RETURN(const JsonObjectReader named, JsonObjectReader::Of(item, where));
    LORICA_ASSIGN_OR_RETURN(const std::string name, named.String("name"));
    LORICA_ASSIGN_OR_RETURN(std::string text, named.String("template"));
    if (name == "default") config->chat_template = std::move(text);
  }
  return OkStatus();
}

}  // namespace

Result<AddedToken> ReadAddedToken(const JsonObjectReader& fields, int32_t id) {
  AddedToken token;
  token.id = id;
  LORICA_ASSIGN_OR_RETURN(token.content, fields.String("content"));
  for (const auto& [key, flag] :
       {std::pair{"single_word", &token.single_word}, std::pair{"lstrip", &token.lstrip},
        std::pair{"rstrip", &token.rstrip}, std::pair{"special", &token.special}}) {
    LORICA_ASSIGN_OR_RETURN(const auto value, fields.OptionalBool(key));
    *flag = value.value_or(false);
  }
  LORICA_ASSIGN_OR_RETURN(const auto normalized, fields.OptionalBool("normalized"));
  token.normalized = normalized.value_or(!token.special);
  return token;
}

Result<TokenizerConfig> TokenizerConfig::Parse(const Files& files) {
  TokenizerConfig config;
  if (files.tokenizer_config) {
    auto value = ParseJson(*files.tokenizer_config);
    if (!value.ok()) return value.status().WithContext("tokenizer_config.json");
    LORICA_ASSIGN_OR_RETURN(const JsonObjectReader fields,
                            JsonObjectReader::Of(*value, "tokenizer_config.json"));
    LORICA_RETURN_IF_ERROR(ReadRoles(fields, &config));
    LORICA_RETURN_IF_ERROR(ReadAdded(fields, &config));
    LORICA_RETURN_IF_ERROR(ReadChatTemplate(fields, &config));
    LORICA_ASSIGN_OR_RETURN(config.add_bos, fields.OptionalBool("add_bos_token"));
    LORICA_ASSIGN_OR_RETURN(config.add_eos, fields.OptionalBool("add_eos_token"));
  }
  if (files.special_tokens_map) {
    auto value = ParseJson(*files.special_tokens_map);
    if (!value.ok()) return value.status().WithContext("special_tokens_map.json");
    LORICA_ASSIGN_OR_RETURN(const JsonObjectReader fields,
                            JsonObjectReader::Of(*value, "special_tokens_map.json"));
    LORICA_RETURN_IF_ERROR(ReadRoles(fields, &config));
  }
  if (files.chat_template) {
    if (FindInvalidUtf8(*files.chat_template)) {
      return InvalidArgument("chat_template.jinja is not UTF-8");
    }
    config.chat_template = files.chat_template;
  }
  return config;
}

}  // namespace lorica::formats
