// KvAllocator: who holds which K/V page. Hands out page ids in O(1), remembers the K/V identity
// that a page was written under, and counts references: a page may be shared between sequences of
// equal identity and prefix, and one with a key that nobody holds any more stays findable until its
// room is needed, least recently used first. The bytes lie in model::KvPages and are never cleared:
// kernels read nothing past a sequence's length. Owned and called by the engine thread.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "lorica/base/status.h"
#include "lorica/engine/kv_identity.h"
#include "lorica/engine/page_keys.h"

namespace lorica::engine {

class KvAllocator {
 public:
  // `pages` >= 1 pages, all free.
  explicit KvAllocator(int32_t pages);

  // A free page, held once, for K and V of `identity`; nothing when none is free.
  std::optional<int32_t> Allocate(const KvIdentity& identity);
  // One more holder of a held page.
  void AddReference(int32_t page);
  // One holder less; the page is free after the last.
  void Release(int32_t page);

  // Says what a held page, written in full, holds. Ignored where another page holds it already.
  void SetKey(int32_t page, const PageKey& key);
  // The page that holds this, held or free.
  std::optional<int32_t> Find(const PageKey& key) const;
  // One more holder of a page that Find gave.
  void Reuse(int32_t page);

  int32_t pages() const { return static_cast<int32_t>(entries_.size()); }
  int32_t free_pages() const { return static_cast<int32_t>(free_.size() + cached_.size()); }
  // Of the free ones, those that can be found by key.
  int32_t cached_pages() const { return static_cast<int32_t>(cached_.size()); }
  int32_t used_pages() const { return pages() - free_pages(); }
  int32_t references(int32_t page) const { return entries_[static_cast<size_t>(page)].references; }
  // Of a held page.
  const KvIdentity& identity(int32_t page) const;

  // The free list holds exactly the pages that no one holds, each once; or the sentence that says
  // what does not agree.
  Status CheckIntegrity() const;

 private:
  struct Entry {
    KvIdentity identity;
    int32_t references = 0;
    std::optional<PageKey> key;
    std::list<int32_t>::iterator place;  // in cached_, while free and with a key
  };
  struct KeyHash {
    size_t operator()(const PageKey& key) const;
  };

  using PageByKey = std::unordered_map<PageKey, int32_t, KeyHash>;

  void DropKey(int32_t page);

  std::vector<Entry> entries_;  // [pages]
  // A stack: the page freed last is the likeliest to be in cache.
  std::vector<int32_t> free_;
  std::list<int32_t> cached_;  // free and with a key, least recently used first
  PageByKey by_key_;
  // Nodes for every page, made at the start, so that no step allocates one.
  std::list<int32_t> spare_places_;
  std::vector<PageByKey::node_type> spare_keys_;
};

// Pages that hold `tokens` positions.
int32_t PagesFor(int64_t tokens);

}  // namespace lorica::engine
