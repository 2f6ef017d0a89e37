#include "lorica/formats/bpe.h"

#include <algorithm>
#include <bit>

#include "lorica/base/check.h"
#include "lorica/formats/byte_level.h"
#include "lorica/formats/utf8.h"

namespace lorica::formats {
namespace {

constexpr uint64_t kEmpty = ~uint64_t{0};
constexpr int32_t kNone = -1;

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

// For a heap whose front is the next merge.
bool Later(const Bpe::Candidate& a, const Bpe::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
}

std::string Quoted(std::string_view text) { return '"' + std::string(text.substr(0, 80)) + '"'; }

}  // namespace

Result<Bpe> Bpe::Create(const BpeSpec& spec) {
  Bpe bpe;
  bpe.fuse_unk_ = spec.fuse_unk;
  bpe.ignore_merges_ = spec.ignore_merges;
  LORICA_RETURN_IF_ERROR(bpe.AddTokens(spec));
  LORICA_RETURN_IF_ERROR(bpe.AddMerges(spec));
  return bpe;
}

Status Bpe::AddTokens(const BpeSpec& spec) {
  const size_t count = spec.tokens.size();
  if (static_cast<int64_t>(count) > kMaxTokenIds) {
    return OutOfRange("the vocabulary has " + std::to_string(count) + " ids, at most " +
                      std::to_string(kMaxTokenIds) + " are served");
  }
  token_bytes_.resize(count);
  by_bytes_.reserve(count);
  std::optional<std::string> unk_bytes;
  for (size_t id = 0; id < count; ++id) {
    const std::string_view spelling = spec.tokens[id];
    if (const auto bad = FindInvalidUtf8(spelling)) {
      return InvalidArgument("token " + std::to_string(id) + " is not UTF-8");
    }
    if (spec.unk_token && spelling == *spec.unk_token) unk_id_ = static_cast<int32_t>(id);
    std::optional<std::string> bytes = ByteLevelToBytes(spelling);
    const bool reachable =
        bytes && !bytes->empty() && (spec.unreachable.empty() || !spec.unreachable[id]);
    token_bytes_[id] = bytes ? *std::move(bytes) : std::string(spelling);
    if (!reachable) continue;
    if (!by_bytes_.emplace(token_bytes_[id], static_cast<int32_t>(id)).second) {
      return InvalidArgument("the vocabulary has the token " + Quoted(spelling) + " twice");
    }
  }
  if (spec.unk_token && !unk_id_) {
    return InvalidArgument("unk_token " + Quoted(*spec.unk_token) + " is not in the vocabulary");
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char bytes[1] = {static_cast<char>(byte)};
    byte_ids_[static_cast<size_t>(byte)] = Find({bytes, 1}).value_or(kNone);
  }
  return OkStatus();
}

Status Bpe::AddMerges(const BpeSpec& spec) {
  const size_t count = spec.merges.size();
  if (count > (size_t{1} << 28)) return OutOfRange("the tokenizer has more than 2^28 merges");
  const size_t capacity = std::bit_ceil(std::max<size_t>(2 * count, 2));
  shift_ = 64 - std::countr_zero(capacity);
  merges_.assign(capacity, Entry{kEmpty, 0, 0});
  std::string joined;
  for (size_t rank = 0; rank < count; ++rank) {
    const BpeMerge& merge = spec.merges[rank];
    const auto id_of = [&](std::string_view spelling) -> std::optional<int32_t> {
      if (FindInvalidUtf8(spelling)) return std::nullopt;
      const auto bytes = ByteLevelToBytes(spelling);
      return bytes ? Find(*bytes) : std::nullopt;
    };
    joined.assign(merge.left).append(merge.right);
    const auto left = id_of(merge.left);
    const auto right = id_of(merge.right);
    const auto merged = id_of(joined);
    if (!left || !right || !merged) {
      const std::string_view missing = !left ? merge.left : !right ? merge.right : joined;
      return InvalidArgument("merge " + std::to_string(rank) + " needs the token " +
                             Quoted(missing) + ", which the vocabulary lacks");
    }
    // Of a pair given twice the last rank holds, as in the reference.
    *Slot(*left, *right) = {PairKey(*left, *right), static_cast<uint32_t>(rank), *merged};
  }
  return OkStatus();
}

std::optional<int32_t> Bpe::Find(std::string_view bytes) const {
  const auto found = by_bytes_.find(bytes);
  if (found == by_bytes_.end()) return std::nullopt;
  return found->second;
}

Bpe::Entry* Bpe::Slot(int32_t left, int32_t right) {
  const uint64_t pair = PairKey(left, right);
  size_t slot = (pair * 0x9E3779B97F4A7C15u) >> shift_;
  while (merges_[slot].pair != kEmpty && merges_[slot].pair != pair) {
    slot = (slot + 1) & (merges_.size() - 1);
  }
  return &merges_[slot];
}

const Bpe::Entry* Bpe::FindMerge(int32_t left, int32_t right) const {
  const Entry* entry = const_cast<Bpe*>(this)->Slot(left, right);
  return entry->pair == kEmpty ? nullptr : entry;
}

void Bpe::StartSymbols(std::string_view word, std::vector<Symbol>* symbols) const {
  symbols->clear();
  bool after_unknown = false;
  for (const char byte : word) {
    int32_t id = byte_ids_[static_cast<uint8_t>(byte)];
    const bool unknown = id == kNone;
    if (unknown) {
      if (!unk_id_ || (after_unknown && fuse_unk_)) continue;
      id = *unk_id_;
    }
    after_unknown = unknown;
    const auto index = static_cast<int32_t>(symbols->size());
    symbols->push_back({id, index - 1, index + 1});
  }
  if (!symbols->empty()) symbols->back().next = kNone;
}

void Bpe::PushPair(int32_t position, Scratch* scratch) const {
  if (position == kNone) return;
  const Symbol& left = scratch->symbols[static_cast<size_t>(position)];
  if (left.next == kNone) return;
  const int32_t right_id = scratch->symbols[static_cast<size_t>(left.next)].id;
  const Entry* merge = FindMerge(left.id, right_id);
  if (merge == nullptr) return;
  scratch->queue.push_back({merge->rank, position, left.id, right_id, merge->merged});
}

void Bpe::Encode(std::string_view word, Scratch* scratch, std::vector<int32_t>* ids) const {
  if (ignore_merges_) {
    if (const auto id = Find(word)) {
      ids->push_back(*id);
      return;
    }
  }
  std::vector<Symbol>& symbols = scratch->symbols;
  std::vector<Candidate>& queue = scratch->queue;
  StartSymbols(word, &symbols);
  if (symbols.empty()) return;
  queue.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) PushPair(static_cast<int32_t>(i), scratch);
  std::make_heap(queue.begin(), queue.end(), Later);
  const auto push = [&](int32_t position) {
    const size_t before = queue.size();
    PushPair(position, scratch);
    if (queue.size() > before) std::push_heap(queue.begin(), queue.end(), Later);
  };
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), Later);
    const Candidate top = queue.back();
    queue.pop_back();
    Symbol& left = symbols[static_cast<size_t>(top.position)];
    // A candidate is stale once either symbol has taken part in another merge; a symbol that was
    // merged away has lost its id.
    if (left.id != top.left || left.next == kNone) continue;
    Symbol& right = symbols[static_cast<size_t>(left.next)];
    if (right.id != top.right) continue;
    left.id = top.merged;
    left.next = right.next;
    right.id = kNone;
    if (left.next != kNone) symbols[static_cast<size_t>(left.next)].previous = top.position;
    push(left.previous);
    push(top.position);
  }
  for (int32_t i = 0; i != kNone; i = symbols[static_cast<size_t>(i)].next) {
    ids->push_back(symbols[static_cast<size_t>(i)].id);
  }
}

}  // namespace lorica::formats
