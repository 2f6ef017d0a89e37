#include "lorica/formats/added_tokens.h"

#include <utf8proc.h>

#include <algorithm>

#include "lorica/formats/utf8.h"

namespace lorica::formats {
namespace {

constexpr size_t kMaxContentBytes = 1024;

// White_Space of Unicode.
bool IsSpace(char32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// \w of Unicode's TR18: alphabetic, mark, decimal number, connector, join control.
bool IsWord(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      // Other_Alphabetic outside the categories above: circled and squared letters.
      return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) ||
             (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
             (c >= 0x1F170 && c <= 0x1F189);
  }
}

// The offset of the character that ends at `end` > 0.
size_t StepBack(std::string_view text, size_t end) {
  do {
    --end;
  } while (end > 0 && (text[end] & 0xC0) == 0x80);
  return end;
}

bool TouchesWord(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && IsWord(CodePointAt(text, StepBack(text, begin)).value)) return true;
  return end < text.size() && IsWord(CodePointAt(text, end).value);
}

// `floor` bounds the walk, so that many tokens in one run of spaces cost the run only once.
size_t SkipSpaceBack(std::string_view text, size_t begin, size_t floor) {
  while (begin > floor) {
    const size_t before = StepBack(text, begin);
    if (!IsSpace(CodePointAt(text, before).value)) break;
    begin = before;
  }
  return std::max(begin, floor);
}

size_t SkipSpace(std::string_view text, size_t end) {
  while (end < text.size()) {
    const CodePoint point = CodePointAt(text, end);
    if (!IsSpace(point.value)) break;
    end += static_cast<size_t>(point.bytes);
  }
  return end;
}

}  // namespace

Result<AddedTokens> AddedTokens::Create(std::vector<AddedToken> tokens, Normalizer normalizer) {
  AddedTokens added;
  added.tokens_ = std::move(tokens);
  for (size_t i = 0; i < added.tokens_.size(); ++i) {
    const AddedToken& token = added.tokens_[i];
    const std::string name = "added token " + std::to_string(token.id);
    if (FindInvalidUtf8(token.content)) return InvalidArgument(name + " is not UTF-8");
    if (token.content.size() > kMaxContentBytes) {
      return OutOfRange(name + " has " + std::to_string(token.content.size()) + " bytes, at most " +
                        std::to_string(kMaxContentBytes) + " are served");
    }
    if (!added.by_id_.emplace(token.id, i).second) {
      return InvalidArgument(name + " is given twice");
    }
    if (!added.by_content_.emplace(token.content, i).second) {
      return InvalidArgument(name + " has the content \"" + token.content +
                             "\", as another added token has");
    }
    if (token.content.empty()) continue;
    const auto index = static_cast<int32_t>(i);
    if (token.normalized) {
      added.normalized_.Insert(Normalize(normalizer, token.content), index);
    } else {
      added.raw_.Insert(token.content, index);
    }
  }
  return added;
}

void AddedTokens::Trie::Insert(std::string_view content, int32_t token) {
  if (nodes.empty()) nodes.emplace_back();
  first[static_cast<uint8_t>(content[0])] = true;
  uint32_t node = 0;
  for (const char c : content) {
    const auto byte = static_cast<uint8_t>(c);
    uint32_t next = Child(node, byte);
    if (next == 0) {
      next = static_cast<uint32_t>(nodes.size());
      auto& children = nodes[node].children;
      const std::pair<uint8_t, uint32_t> child(byte, next);
      children.insert(std::upper_bound(children.begin(), children.end(), child), child);
      nodes.emplace_back();
    }
    node = next;
  }
  // Two contents may be one after normalisation; the first holds.
  if (nodes[node].token < 0) nodes[node].token = token;
}

uint32_t AddedTokens::Trie::Child(uint32_t node, uint8_t byte) const {
  const auto& children = nodes[node].children;
  const auto found = std::lower_bound(children.begin(), children.end(), byte,
                                      [](const auto& child, uint8_t b) { return child.first < b; });
  return found != children.end() && found->first == byte ? found->second : 0;
}

const AddedToken* AddedTokens::Find(int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::FindContent(std::string_view content) const {
  const auto found = by_content_.find(content);
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

AddedTokens::Match AddedTokens::LongestAt(const Trie& trie, std::string_view text,
                                          size_t at) const {
  Match match{-1, at};
  uint32_t node = 0;
  for (size_t i = at; i < text.size(); ++i) {
    node = trie.Child(node, static_cast<uint8_t>(text[i]));
    if (node == 0) break;
    if (trie.nodes[node].token >= 0) match = {trie.nodes[node].token, i + 1};
  }
  return match;
}

std::vector<AddedTokenPiece> AddedTokens::Cut(std::string_view text, Pass pass,
                                              Special special) const {
  std::vector<AddedTokenPiece> pieces;
  const Trie& trie = pass == Pass::kRaw ? raw_ : normalized_;
  size_t text_begin = 0;
  size_t walk_begin = 1;  // an empty range: nothing walked yet
  size_t walk_end = 0;
  for (size_t at = 0; at < text.size() && !trie.nodes.empty();) {
    if (!trie.first[static_cast<uint8_t>(text[at])]) {
      ++at;
      continue;
    }
    const Match match = LongestAt(trie, text, at);
    if (match.token < 0) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = match.end;
    // A match that is then discarded still hides those inside it, as in the reference.
    at = match.end;
    const AddedToken& token = tokens_[static_cast<size_t>(match.token)];
    if (token.special && special == Special::kAsText) continue;
    if (token.single_word && TouchesWord(text, begin, end)) continue;
    if (token.lstrip) {
      begin = SkipSpaceBack(text, begin, text_begin);
      if (begin >= end) continue;  // all of it was taken along by the token before
    }
    if (token.rstrip) {
      // Whitespace is walked once, however many tokens lie in it.
      if (end < walk_begin || end > walk_end) {
        walk_begin = end;
        walk_end = SkipSpace(text, end);
      }
      end = walk_end;
    }
    if (text_begin < begin) {
      pieces.push_back({nullptr, text.substr(text_begin, begin - text_begin)});
    }
    pieces.push_back({&token, {}});
    text_begin = end;
  }
  if (text_begin < text.size()) pieces.push_back({nullptr, text.substr(text_begin)});
  return pieces;
}

}  // namespace lorica::formats
