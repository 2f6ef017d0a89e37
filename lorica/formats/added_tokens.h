// AddedTokens: the tokens that are found in the text before it is split (special tokens, tool
// tags, runs of spaces). Immutable; any thread may call it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lorica/base/status.h"
#include "lorica/formats/normalizer.h"

namespace lorica::formats {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the whitespace before it along
  bool rstrip = false;       // and after it
  bool normalized = false;   // sought in the normalised text
  bool special = false;
};

// A stretch of text, or a token found in it.
struct AddedTokenPiece {
  const AddedToken* token;  // null for text
  std::string_view text;    // empty for a token
};

class AddedTokens {
 public:
  enum class Pass { kRaw, kNormalized };
  enum class Special { kFind, kAsText };

  // INVALID_ARGUMENT for an id or a content that two tokens share, OUT_OF_RANGE for a content over
  // 1024 bytes. Tokens without content are never found.
  static Result<AddedTokens> Create(std::vector<AddedToken> tokens, Normalizer normalizer);
  AddedTokens() = default;
  AddedTokens(AddedTokens&&) = default;
  AddedTokens& operator=(AddedTokens&&) = default;
  AddedTokens(const AddedTokens&) = delete;  // by_content_ looks into tokens_
  AddedTokens& operator=(const AddedTokens&) = delete;

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  const AddedToken* Find(int32_t id) const;
  const AddedToken* FindContent(std::string_view content) const;

  // Cuts `text` at the tokens of one pass: leftmost, then longest.
  std::vector<AddedTokenPiece> Cut(std::string_view text, Pass pass, Special special) const;

 private:
  // A trie over bytes.
  struct Node {
    std::vector<std::pair<uint8_t, uint32_t>> children;  // sorted
    int32_t token = -1;                                  // index into tokens_
  };
  struct Trie {
    std::vector<Node> nodes;
    std::array<bool, 256> first{};  // bytes that a content begins with
    void Insert(std::string_view content, int32_t token);
    uint32_t Child(uint32_t node, uint8_t byte) const;
  };
  struct Match {
    int32_t token;
    size_t end;
  };
  Match LongestAt(const Trie& trie, std::string_view text, size_t at) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<int32_t, size_t> by_id_;
  std::unordered_map<std::string_view, size_t> by_content_;
  Trie raw_, normalized_;
};

}  // namespace lorica::formats
