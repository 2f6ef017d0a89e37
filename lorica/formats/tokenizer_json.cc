#include "lorica/formats/tokenizer_json.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <map>
#include <utility>

#include "lorica/base/mapped_file.h"
#include "lorica/formats/json.h"
#include "lorica/formats/tokenizer_components.h"
#include "lorica/formats/tokenizer_parts.h"

namespace lorica::formats {
namespace {

namespace json = boost::json;

constexpr int64_t kMaxFileBytes = int64_t{256} << 20;

// Added tokens of both files, checked against the vocabulary.
class AddedTokenTable {
 public:
  explicit AddedTokenTable(const BpeSpec& spec, const json::object& vocab)
      : spec_(spec), vocab_(vocab) {}

  Status ReadFrom(const JsonObjectReader& file) {
    const json::value* list = file.Find("added_tokens");
    if (list == nullptr) return OkStatus();
    if (!list->is_array()) return file.Wrong("added_tokens", "an array");
    for (const json::value& item : list->get_array()) {
      const std::string where = "\"added_tokens\"[" + std::to_string(tokens_.size()) + "]";
      LORICA_ASSIGN_OR_RETURN(const JsonObjectReader fields, JsonObjectReader::Of(item, where));
      LORICA_ASSIGN_OR_RETURN(const int64_t id,
                              fields.Int("id", {.min = 0, .max = kMaxTokenIds - 1}));
      LORICA_ASSIGN_OR_RETURN(AddedToken token, ReadAddedToken(fields, static_cast<int32_t>(id)));
      LORICA_RETURN_IF_ERROR(Add(std::move(token)));
    }
    return OkStatus();
  }

  // The config's flags win over the file's, but an id keeps its content.
  Status Merge(const std::map<int32_t, AddedToken>& more) {
    for (const auto& [id, token] : more) {
      const auto found = by_id_.find(id);
      if (found == by_id_.end()) {
        LORICA_RETURN_IF_ERROR(Add(token));
      } else if (tokens_[found->second].content != token.content) {
        return InvalidArgument("the added token " + std::to_string(id) + " is \"" +
                               tokens_[found->second].content + "\" here and \"" + token.content +
                               "\" in tokenizer_config.json");
      } else {
        tokens_[found->second] = token;
      }
    }
    return OkStatus();
  }

  // The id of a token that has a role; a plain vocabulary entry becomes a special token by it.
  Result<std::optional<int32_t>> Promote(const std::string& content) {
    const auto found = by_content_.find(content);
    if (found != by_content_.end()) {
      tokens_[found->second].special = true;
      return std::optional(tokens_[found->second].id);
    }
    const auto id = IdInVocabulary(content);
    if (!id) return std::optional<int32_t>();
    LORICA_RETURN_IF_ERROR(Add({.id = *id, .content = content, .special = true}));
    return id;
  }

  std::vector<AddedToken> Take() { return std::move(tokens_); }

 private:
  std::optional<int32_t> IdInVocabulary(const std::string& content) const {
    const json::value* id = vocab_.if_contains(content);
    if (id == nullptr) return std::nullopt;
    return static_cast<int32_t>(id->get_int64());  // ReadBpeSpec has checked it
  }

  Status Add(AddedToken token) {
    const auto index = static_cast<size_t>(token.id);
    const auto vocabulary_id = IdInVocabulary(token.content);
    const std::string name =
        "the added token \"" + token.content + "\" with the id " + std::to_string(token.id);
    if (vocabulary_id && *vocabulary_id != token.id) {
      return InvalidArgument(name + " is " + std::to_string(*vocabulary_id) + " in the vocabulary");
    }
    if (index < spec_.tokens.size() && spec_.tokens[index].data() != nullptr && !vocabulary_id) {
      return InvalidArgument(name + " takes the id of the vocabulary's \"" +
                             std::string(spec_.tokens[index]) + "\"");
    }
    by_id_.emplace(token.id, tokens_.size());
    by_content_.emplace(token.content, tokens_.size());
    tokens_.push_back(std::move(token));  // AddedTokens::Create finds doubles
    return OkStatus();
  }

  const BpeSpec& spec_;
  const json::object& vocab_;
  std::vector<AddedToken> tokens_;
  std::map<int32_t, size_t> by_id_;
  std::map<std::string, size_t> by_content_;
};

struct Roles {
  std::optional<int32_t> bos, eos;
};

Result<Roles> ReadRoles(const TokenizerConfig& config, AddedTokenTable* added) {
  Roles roles;
  for (const auto& [token, id, name] : {std::tuple{&config.bos_token, &roles.bos, "bos_token"},
                                        std::tuple{&config.eos_token, &roles.eos, "eos_token"}}) {
    if (!token->has_value() || (*token)->empty()) continue;
    LORICA_ASSIGN_OR_RETURN(*id, added->Promote(**token));
    if (!id->has_value()) {
      return InvalidArgument(std::string("the ") + name + " \"" + **token +
                             "\" is in neither the vocabulary nor the added tokens");
    }
  }
  for (const std::string& token : config.other_special) {
    LORICA_RETURN_IF_ERROR(added->Promote(token).status());
  }
  return roles;
}

Status ApplyAddBosEos(const TokenizerConfig& config, const Roles& roles, Affixes* affixes) {
  if (!config.add_bos && !config.add_eos) return OkStatus();
  *affixes = {};
  if (config.add_bos.value_or(false) && roles.bos) affixes->prefix.push_back(*roles.bos);
  if (config.add_eos.value_or(false) && roles.eos) affixes->suffix.push_back(*roles.eos);
  return OkStatus();
}

Result<std::shared_ptr<const Tokenizer>> Build(const json::value& root,
                                               const TokenizerConfig& config) {
  LORICA_ASSIGN_OR_RETURN(const JsonObjectReader file, JsonObjectReader::Of(root, "the file"));
  LORICA_ASSIGN_OR_RETURN(const std::string version, file.String("version"));
  if (version != "1.0") {
    return Unimplemented("\"version\": expected \"1.0\", found \"" + version + "\"");
  }
  LORICA_ASSIGN_OR_RETURN(const Normalizer normalizer, ReadNormalizer(file.Find("normalizer")));
  // The model's kind is named first: it says most about a tokenizer that is not served.
  LORICA_ASSIGN_OR_RETURN(const JsonObjectReader model, file.Object("model"));
  LORICA_ASSIGN_OR_RETURN(const BpeSpec spec, ReadBpeSpec(model));
  LORICA_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer, ReadPreTokenizer(file.Find("pre_tokenizer")));
  LORICA_ASSIGN_OR_RETURN(Affixes affixes, ReadPostProcessor(file.Find("post_processor")));
  LORICA_RETURN_IF_ERROR(CheckDecoder(file.Find("decoder")));
  LORICA_ASSIGN_OR_RETURN(Bpe bpe, Bpe::Create(spec));

  AddedTokenTable table(spec, model.object().at("vocab").get_object());
  LORICA_RETURN_IF_ERROR(table.ReadFrom(file));
  LORICA_RETURN_IF_ERROR(table.Merge(config.added));
  LORICA_ASSIGN_OR_RETURN(const Roles roles, ReadRoles(config, &table));
  LORICA_ASSIGN_OR_RETURN(AddedTokens added, AddedTokens::Create(table.Take(), normalizer));
  LORICA_RETURN_IF_ERROR(ApplyAddBosEos(config, roles, &affixes));

  TokenizerParts parts{normalizer, std::move(pre_tokenizer), std::move(bpe), std::move(added)};
  parts.prefix = std::move(affixes.prefix);
  parts.suffix = std::move(affixes.suffix);
  parts.bos = roles.bos;
  if (roles.eos) parts.eos.push_back(*roles.eos);
  parts.chat_template = config.chat_template;
  return Tokenizer::Create(std::move(parts));
}

// Nothing when there is no such file.
Result<std::optional<std::string>> ReadOptional(const std::string& path) {
  auto file = MappedFile::Open(path, MappedFile::Mode::kRead, kMaxFileBytes);
  if (file.ok()) return std::optional<std::string>(file->text());
  if (file.status().code() == StatusCode::kNotFound) return std::optional<std::string>();
  return file.status();
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> ParseTokenizerJson(std::string_view tokenizer_json,
                                                            const TokenizerConfig& config) {
  auto root = ParseJson(tokenizer_json);
  if (!root.ok()) return root.status().WithContext("tokenizer.json");
  auto tokenizer = Build(*root, config);
  if (!tokenizer.ok()) return tokenizer.status().WithContext("tokenizer.json");
  return tokenizer;
}

Result<std::shared_ptr<const Tokenizer>> LoadTokenizerFolder(const std::string& folder) {
  const std::string prefix = folder + "/";
  LORICA_ASSIGN_OR_RETURN(
      const MappedFile file,
      MappedFile::Open(prefix + "tokenizer.json", MappedFile::Mode::kRead, kMaxFileBytes));
  TokenizerConfig::Files files;
  LORICA_ASSIGN_OR_RETURN(files.tokenizer_config, ReadOptional(prefix + "tokenizer_config.json"));
  LORICA_ASSIGN_OR_RETURN(files.special_tokens_map,
                          ReadOptional(prefix + "special_tokens_map.json"));
  LORICA_ASSIGN_OR_RETURN(files.chat_template, ReadOptional(prefix + "chat_template.jinja"));
  auto config = TokenizerConfig::Parse(files);
  if (!config.ok()) return config.status().WithContext(folder);
  auto tokenizer = ParseTokenizerJson(file.text(), *config);
  if (!tokenizer.ok()) return tokenizer.status().WithContext(folder);
  return tokenizer;
}

}  // namespace lorica::formats
