// KvAllocator: who holds which K/V page. Hands out page ids in O(1) from a free list, remembers
// the K/V identity that a page was written under, and counts references, so that pages may later
// be shared between sequences of equal identity and prefix. The bytes lie in model::KvPages and
// are never cleared: kernels read nothing past a sequence's length. Owned and called by the engine
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lorica/base/status.h"
#include "lorica/engine/kv_identity.h"

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

  int32_t pages() const { return static_cast<int32_t>(entries_.size()); }
  int32_t free_pages() const { return static_cast<int32_t>(free_.size()); }
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
  };

  std::vector<Entry> entries_;  // [pages]
  // A stack: the page freed last is the likeliest to be in cache.
  std::vector<int32_t> free_;
};

// Pages that hold `tokens` positions.
int32_t PagesFor(int64_t tokens);

}  // namespace lorica::engine
