#include "lorica/server/completion_text.h"

#include <algorithm>
#include <unordered_map>

namespace lorica::server {
namespace {

int64_t CodePoints(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

std::string IdName(int32_t token) { return "token_id:" + std::to_string(token); }

}  // namespace

std::string TokenName(const formats::Tokenizer& tokenizer, int32_t token) {
  const std::string& bytes = tokenizer.TokenBytes(token);
  if (bytes.empty() || formats::FindInvalidUtf8(bytes)) return IdName(token);
  return bytes;
}

void LogprobsWriter::BeginWith(std::string prompt, bool adds_first) {
  prompt_ = std::move(prompt);
  skip_next_ = adds_first;
}

int64_t LogprobsWriter::Pass(int32_t token) {
  const std::string& bytes = tokenizer_->TokenBytes(token);
  int64_t at = offset_;
  if (!tokenizer_->IsSpecial(token)) {
    offset_ += CodePoints(stream_.Push(bytes));
    prompt_at_ += bytes.size();
  } else if (!skip_next_ && !bytes.empty() && prompt_at_ < prompt_.size()) {
    // Some special tokens swallow the space before them.
    const size_t found = prompt_.find(bytes, prompt_at_);
    if (found == std::string::npos) {
      prompt_.clear();  // it does not stand there; a search for each would not be linear
    } else {
      const std::string_view before = std::string_view(prompt_).substr(prompt_at_);
      at = offset_ += CodePoints(before.substr(0, found - prompt_at_));
      offset_ += CodePoints(bytes);
      prompt_at_ = found + bytes.size();
    }
  }
  skip_next_ = false;
  return at;
}

void LogprobsWriter::Write(std::span<const engine::TokenInfo> tokens, JsonWriter* json) {
  json->BeginObject();
  json->Key("tokens").BeginArray();
  for (const engine::TokenInfo& token : tokens) json->String(TokenName(*tokenizer_, token.token));
  json->EndArray();
  json->Key("token_logprobs").BeginArray();
  for (const engine::TokenInfo& token : tokens) {
    token.logprob ? json->Float(*token.logprob) : json->Null();
  }
  json->EndArray();
  json->Key("top_logprobs").BeginArray();
  for (const engine::TokenInfo& token : tokens) WriteTop(token, json);
  json->EndArray();
  json->Key("text_offset").BeginArray();
  for (const engine::TokenInfo& token : tokens) {
    json->Int(Pass(token.token));
  }
  json->EndArray();
  json->EndObject();
}

void LogprobsWriter::WriteTop(const engine::TokenInfo& token, JsonWriter* json) const {
  if (!token.logprob) {
    json->Null();
    return;
  }
  // The N best, and the chosen token where it is not among them.
  std::vector<engine::TokenLogprob> entries = token.top;
  const bool listed = std::any_of(entries.begin(), entries.end(),
                                  [&](const auto& entry) { return entry.token == token.token; });
  if (!listed) entries.push_back({token.token, *token.logprob});
  std::unordered_map<std::string, int> uses;
  for (const auto& entry : entries) ++uses[TokenName(*tokenizer_, entry.token)];
  json->BeginObject();
  for (const auto& entry : entries) {
    const std::string name = TokenName(*tokenizer_, entry.token);
    json->Key(uses[name] > 1 ? IdName(entry.token) : name).Float(entry.logprob);
  }
  json->EndObject();
}

}  // namespace lorica::server
