// Bpe: the merge model of byte-level BPE. A word starts as its bytes; the pair of neighbours with
// the lowest rank is merged (the leftmost of equals) until none has a rank. Immutable; any thread
// may call it, each with a Scratch of its own.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lorica/base/status.h"

namespace lorica::formats {

// Ids and so tables stay below this.
inline constexpr int64_t kMaxTokenIds = int64_t{1} << 24;

struct BpeMerge {
  std::string_view left, right;
};

// What a file says, in the byte-level alphabet (byte_level.h). The views must last until Create
// returns.
struct BpeSpec {
  std::vector<std::string_view> tokens = {};  // by id; empty where an id has no token
  std::vector<BpeMerge> merges = {};          // by rank
  // Tokens that text never yields (a GGUF's control and unused ones), by id, or empty for none.
  std::vector<bool> unreachable = {};
  // What a byte without a token becomes; without it such a byte is dropped, as the reference does.
  std::optional<std::string_view> unk_token = {};
  bool fuse_unk = false;
  // A word that is a token is that token, whatever the merges would make of it.
  bool ignore_merges = false;
};

class Bpe {
 public:
  struct Symbol {
    int32_t id;
    int32_t previous, next;  // indices, -1 at an end
  };
  struct Candidate {
    uint32_t rank;
    int32_t position;  // of the left symbol
    int32_t left, right, merged;
  };
  // Memory of Encode, kept by the caller between words.
  struct Scratch {
    std::vector<Symbol> symbols;
    std::vector<Candidate> queue;
  };

  Bpe(Bpe&&) = default;
  Bpe& operator=(Bpe&&) = default;
  Bpe(const Bpe&) = delete;  // by_bytes_ looks into token_bytes_
  Bpe& operator=(const Bpe&) = delete;

  // INVALID_ARGUMENT names a token given twice, a merge of tokens that the vocabulary lacks, or a
  // missing unk_token.
  static Result<Bpe> Create(const BpeSpec& spec);

  // Appends the ids of one word of raw bytes (below 2^31 of them). O(n log n).
  void Encode(std::string_view word, Scratch* scratch, std::vector<int32_t>* ids) const;

  // By id: the bytes of a token; a spelling outside the alphabet stands for itself.
  const std::vector<std::string>& token_bytes() const { return token_bytes_; }
  // The id of the token with these bytes.
  std::optional<int32_t> Find(std::string_view bytes) const;

 private:
  // Pairs of ids to their merge: open addressing, at most half full.
  struct Entry {
    uint64_t pair;
    uint32_t rank;
    int32_t merged;
  };
  Bpe() = default;
  Status AddTokens(const BpeSpec& spec);
  Status AddMerges(const BpeSpec& spec);
  Entry* Slot(int32_t left, int32_t right);
  const Entry* FindMerge(int32_t left, int32_t right) const;
  void PushPair(int32_t position, Scratch* scratch) const;
  void StartSymbols(std::string_view word, std::vector<Symbol>* symbols) const;

  std::vector<std::string> token_bytes_;
  std::unordered_map<std::string_view, int32_t> by_bytes_;  // views into token_bytes_
  std::array<int32_t, 256> byte_ids_{};                     // -1: the byte has no token
  std::vector<Entry> merges_;
  int shift_ = 64;  // of the hash: 64 - log2(merges_.size())
  std::optional<int32_t> unk_id_;
  bool fuse_unk_ = false;
  bool ignore_merges_ = false;
};

}  // namespace lorica::formats
