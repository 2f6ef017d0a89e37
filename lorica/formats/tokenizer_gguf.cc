#include <algorithm>
#include <string>
#include <utility>

#include "lorica/formats/gguf.h"
#include "lorica/formats/tokenizer.h"
#include "lorica/formats/tokenizer_parts.h"

namespace lorica::formats {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";

// Values of tokenizer.ggml.token_type.
enum TokenType : int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

std::string Key(std::string_view name) { return std::string(kPrefix).append(name); }

struct Family {
  Normalizer normalizer = Normalizer::kNone;
  std::vector<PreTokenizer::Step> steps;
  bool ignore_merges = false;
  bool add_bos = false;  // where the file does not say
};

Result<Family> FamilyOf(const std::string& pre) {
  const auto split = [](const std::string& digits) -> Result<SplitStep> {
    const std::string regex = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)" + digits +
                              R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    LORICA_ASSIGN_OR_RETURN(SplitPattern pattern, SplitPattern::Compile(regex));
    return SplitStep{std::move(pattern), SplitBehavior::kIsolated, false};
  };
  Family family;
  if (pre == "smollm" || pre == "starcoder" || pre == "refact") {
    family.steps.emplace_back(DigitsStep{.individual = true});
    family.steps.emplace_back(Gpt2Split());
    return family;
  }
  if (pre == "qwen2") {
    LORICA_ASSIGN_OR_RETURN(SplitStep step, split(R"(\p{N})"));
    family.steps.emplace_back(std::move(step));
    family.normalizer = Normalizer::kNfc;
    return family;
  }
  if (pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3") {
    LORICA_ASSIGN_OR_RETURN(SplitStep step, split(R"(\p{N}{1,3})"));
    family.steps.emplace_back(std::move(step));
    family.ignore_merges = true;
    family.add_bos = true;
    return family;
  }
  return Unimplemented(Key("pre") + ": expected smollm, starcoder, refact, qwen2 or llama-bpe, " +
                       "found \"" + pre + "\"");
}

// The vocabulary and the tokens that are sought in the text.
struct Vocabulary {
  BpeSpec spec;
  std::vector<AddedToken> added;
};

Result<Vocabulary> ReadVocabulary(const GgufFile& file) {
  LORICA_ASSIGN_OR_RETURN(const auto* tokens, file.FindStringArray(Key("tokens")));
  LORICA_ASSIGN_OR_RETURN(const auto* merges, file.FindStringArray(Key("merges")));
  if (tokens == nullptr) return InvalidArgument(Key("tokens") + " is missing");
  if (merges == nullptr) return InvalidArgument(Key("merges") + " is missing");
  LORICA_ASSIGN_OR_RETURN(const auto types, file.FindIntArray(Key("token_type")));
  if (types && types->size() != tokens->size()) {
    return InvalidArgument(Key("token_type") + ": expected " + std::to_string(tokens->size()) +
                           " entries, one a token, found " + std::to_string(types->size()));
  }
  if (static_cast<int64_t>(tokens->size()) > kMaxTokenIds) {
    return OutOfRange(Key("tokens") + " has " + std::to_string(tokens->size()) +
                      " entries, at most " + std::to_string(kMaxTokenIds) + " are served");
  }
  Vocabulary vocabulary;
  BpeSpec& spec = vocabulary.spec;
  spec.tokens.assign(tokens->begin(), tokens->end());
  spec.unreachable.resize(tokens->size());
  for (size_t id = 0; types && id < tokens->size(); ++id) {
    const int64_t type = (*types)[id];
    if (type < kNormal || type > kByte) {
      return InvalidArgument(Key("token_type") + ": token " + std::to_string(id) +
                             ": expected 1 to 6, found " + std::to_string(type));
    }
    spec.unreachable[id] = type != kNormal && type != kByte;
    if (type != kControl && type != kUserDefined) continue;
    vocabulary.added.push_back(
        {.id = static_cast<int32_t>(id), .content = (*tokens)[id], .special = type == kControl});
  }
  spec.merges.reserve(merges->size());
  for (const std::string& merge : *merges) {
    // The left token is never empty; it may itself be a space in a foreign alphabet.
    const size_t space = merge.find(' ', 1);
    if (space == std::string::npos) {
      return InvalidArgument(Key("merges") + ": entry " + std::to_string(spec.merges.size()) +
                             ": expected \"left right\", found \"" + merge.substr(0, 80) + "\"");
    }
    const std::string_view text = merge;
    spec.merges.push_back({text.substr(0, space), text.substr(space + 1)});
  }
  return vocabulary;
}

Result<std::optional<int32_t>> FindId(const GgufFile& file, std::string_view name, size_t tokens) {
  LORICA_ASSIGN_OR_RETURN(const auto id, file.FindInt(Key(name)));
  if (!id) return std::optional<int32_t>();
  if (*id < 0 || *id >= static_cast<int64_t>(tokens)) {
    return InvalidArgument(Key(name) + ": expected an id below " + std::to_string(tokens) +
                           ", found " + std::to_string(*id));
  }
  return std::optional(static_cast<int32_t>(*id));
}

Status ReadRoles(const GgufFile& file, const Family& family, size_t tokens, TokenizerParts* parts) {
  LORICA_ASSIGN_OR_RETURN(parts->bos, FindId(file, "bos_token_id", tokens));
  // The end of a turn ends an answer as the end of the text does.
  for (const std::string_view name : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
    LORICA_ASSIGN_OR_RETURN(const auto id, FindId(file, name, tokens));
    if (id && std::find(parts->eos.begin(), parts->eos.end(), *id) == parts->eos.end()) {
      parts->eos.push_back(*id);
    }
  }
  LORICA_ASSIGN_OR_RETURN(const auto add_bos, file.FindBool(Key("add_bos_token")));
  LORICA_ASSIGN_OR_RETURN(const auto add_eos, file.FindBool(Key("add_eos_token")));
  LORICA_ASSIGN_OR_RETURN(const auto eos, FindId(file, "eos_token_id", tokens));
  if (add_bos.value_or(family.add_bos)) {
    if (!parts->bos) return InvalidArgument(Key("bos_token_id") + " is missing");
    parts->prefix.push_back(*parts->bos);
  }
  if (add_eos.value_or(false)) {
    if (!eos) return InvalidArgument(Key("eos_token_id") + " is missing");
    parts->suffix.push_back(*eos);
  }
  LORICA_ASSIGN_OR_RETURN(parts->chat_template, file.FindString("tokenizer.chat_template"));
  return OkStatus();
}

Result<std::shared_ptr<const Tokenizer>> Build(const GgufFile& file) {
  LORICA_ASSIGN_OR_RETURN(const auto model, file.FindString(Key("model")));
  if (!model) return InvalidArgument(Key("model") + " is missing");
  if (*model != "gpt2") {
    return Unimplemented(Key("model") + ": expected gpt2, found \"" + *model + "\"");
  }
  LORICA_ASSIGN_OR_RETURN(const auto pre, file.FindString(Key("pre")));
  if (!pre) return InvalidArgument(Key("pre") + " is missing");
  LORICA_ASSIGN_OR_RETURN(Family family, FamilyOf(*pre));
  LORICA_ASSIGN_OR_RETURN(Vocabulary vocabulary, ReadVocabulary(file));
  vocabulary.spec.ignore_merges = family.ignore_merges;
  LORICA_ASSIGN_OR_RETURN(Bpe bpe, Bpe::Create(vocabulary.spec));
  LORICA_ASSIGN_OR_RETURN(AddedTokens added,
                          AddedTokens::Create(std::move(vocabulary.added), family.normalizer));
  TokenizerParts parts{family.normalizer, PreTokenizer(std::move(family.steps)), std::move(bpe),
                       std::move(added)};
  LORICA_RETURN_IF_ERROR(ReadRoles(file, family, vocabulary.spec.tokens.size(), &parts));
  return Tokenizer::Create(std::move(parts));
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> LoadTokenizerGguf(const GgufFile& file) {
  auto tokenizer = Build(file);
  if (!tokenizer.ok()) return tokenizer.status().WithContext(file.name());
  return tokenizer;
}

}  // namespace lorica::formats
