#include "lorica/formats/tokenizer.h"

#include <algorithm>
#include <unordered_map>

#include "lorica/formats/byte_level.h"
#include "lorica/formats/tokenizer_parts.h"
#include "lorica/formats/utf8.h"

namespace lorica::formats {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;

// One Encode: its output and the memory that its words share.
struct Encoding {
  const TokenizerParts* parts;
  AddedTokens::Special special;
  std::vector<int32_t> ids;
  Bpe::Scratch scratch;

  Status AddText(std::string_view text) {
    LORICA_ASSIGN_OR_RETURN(const Words words, parts->pre_tokenizer.Cut(text));
    for (size_t i = 0; i < words.ranges.size(); ++i) {
      parts->model.Encode(words.word(i), &scratch, &ids);
    }
    return OkStatus();
  }

  Status AddRaw(std::string_view text) {
    const std::string normalized = Normalize(parts->normalizer, text);
    const auto pieces = parts->added.Cut(normalized, AddedTokens::Pass::kNormalized, special);
    for (const AddedTokenPiece& piece : pieces) {
      if (piece.token != nullptr) {
        ids.push_back(piece.token->id);
      } else {
        LORICA_RETURN_IF_ERROR(AddText(piece.text));
      }
    }
    return OkStatus();
  }
};

Status CheckIds(const TokenizerParts& parts, int64_t ids) {
  std::vector<int32_t> named = parts.prefix;
  named.insert(named.end(), parts.suffix.begin(), parts.suffix.end());
  named.insert(named.end(), parts.eos.begin(), parts.eos.end());
  if (parts.bos) named.push_back(*parts.bos);
  for (const int32_t id : named) {
    if (id < 0 || id >= ids) {
      return InvalidArgument("the special token id " + std::to_string(id) +
                             " is outside the vocabulary of " + std::to_string(ids) + " ids");
    }
  }
  return OkStatus();
}

}  // namespace

struct Tokenizer::State {
  TokenizerParts parts;
  int32_t vocab_size;
  // What added tokens decode to: the decoder reads their content in the byte alphabet where it
  // can, like any other token.
  std::unordered_map<int32_t, std::string> added_bytes;
  std::string nothing;
};

Tokenizer::Tokenizer(std::unique_ptr<const State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::Create(TokenizerParts parts) {
  auto ids = static_cast<int64_t>(parts.model.token_bytes().size());
  std::unordered_map<int32_t, std::string> added_bytes;
  for (const AddedToken& token : parts.added.tokens()) {
    if (token.id < 0 || token.id >= kMaxTokenIds) {
      return OutOfRange("the added token \"" + token.content + "\" has the id " +
                        std::to_string(token.id) + ", expected 0 to " +
                        std::to_string(kMaxTokenIds - 1));
    }
    ids = std::max<int64_t>(ids, token.id + 1);
    const std::string content =
        token.normalized ? Normalize(parts.normalizer, token.content) : token.content;
    added_bytes.emplace(token.id, ByteLevelToBytes(content).value_or(content));
  }
  LORICA_RETURN_IF_ERROR(CheckIds(parts, ids));
  auto state = std::make_unique<const State>(
      State{std::move(parts), static_cast<int32_t>(ids), std::move(added_bytes), {}});
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(state)));
}

Result<std::vector<int32_t>> Tokenizer::Encode(std::string_view text, EncodeOptions options) const {
  if (text.size() > kMaxTextBytes) {
    return OutOfRange("the text has " + std::to_string(text.size()) + " bytes, at most " +
                      std::to_string(kMaxTextBytes) + " are served");
  }
  if (const auto bad = FindInvalidUtf8(text)) {
    return InvalidArgument("the text is not UTF-8: byte " + std::to_string(*bad) +
                           " begins no character");
  }
  const TokenizerParts& parts = state_->parts;
  Encoding encoding{
      &parts,
      options.parse_special ? AddedTokens::Special::kFind : AddedTokens::Special::kAsText,
      {},
      {}};
  if (options.add_special_tokens) encoding.ids = parts.prefix;
  for (const AddedTokenPiece& piece :
       parts.added.Cut(text, AddedTokens::Pass::kRaw, encoding.special)) {
    if (piece.token != nullptr) {
      encoding.ids.push_back(piece.token->id);
    } else {
      LORICA_RETURN_IF_ERROR(encoding.AddRaw(piece.text));
    }
  }
  if (options.add_special_tokens) {
    encoding.ids.insert(encoding.ids.end(), parts.suffix.begin(), parts.suffix.end());
  }
  return std::move(encoding.ids);
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, DecodeOptions options) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (!(options.skip_special && IsSpecial(id))) bytes += TokenBytes(id);
  }
  return ReplaceInvalidUtf8(bytes);
}

const std::string& Tokenizer::TokenBytes(int32_t id) const {
  const auto added = state_->added_bytes.find(id);
  if (added != state_->added_bytes.end()) return added->second;
  const std::vector<std::string>& words = state_->parts.model.token_bytes();
  return id >= 0 && static_cast<size_t>(id) < words.size() ? words[static_cast<size_t>(id)]
                                                           : state_->nothing;
}

bool Tokenizer::IsSpecial(int32_t id) const {
  const AddedToken* token = state_->parts.added.Find(id);
  return token != nullptr && token->special;
}

int32_t Tokenizer::vocab_size() const { return state_->vocab_size; }

std::optional<int32_t> Tokenizer::TokenId(std::string_view text) const {
  const AddedToken* token = state_->parts.added.FindContent(text);
  return token != nullptr ? token->id : state_->parts.model.Find(text);
}

std::optional<int32_t> Tokenizer::bos_id() const { return state_->parts.bos; }
const std::vector<int32_t>& Tokenizer::eos_ids() const { return state_->parts.eos; }
const std::optional<std::string>& Tokenizer::chat_template() const {
  return state_->parts.chat_template;
}
bool Tokenizer::adds_bos() const {
  const TokenizerParts& parts = state_->parts;
  return parts.bos && !parts.prefix.empty() && parts.prefix.front() == *parts.bos;
}

}  // namespace lorica::formats
