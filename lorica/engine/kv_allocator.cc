#include "lorica/engine/kv_allocator.h"

#include <string>

#include "lorica/kernels/params.h"

namespace lorica::engine {

KvAllocator::KvAllocator(int32_t pages) : entries_(static_cast<size_t>(pages)) {
  LORICA_CHECK(pages >= 1);
  free_.reserve(entries_.size());
  // Descending, so that the first pages handed out are the lowest.
  for (int32_t page = pages - 1; page >= 0; --page) free_.push_back(page);
}

std::optional<int32_t> KvAllocator::Allocate(const KvIdentity& identity) {
  if (free_.empty()) return std::nullopt;
  const int32_t page = free_.back();
  free_.pop_back();
  Entry& entry = entries_[static_cast<size_t>(page)];
  LORICA_DCHECK(entry.references == 0);
  entry.identity = identity;
  entry.references = 1;
  return page;
}

void KvAllocator::AddReference(int32_t page) {
  Entry& entry = entries_[static_cast<size_t>(page)];
  LORICA_CHECK(entry.references > 0);
  ++entry.references;
}

void KvAllocator::Release(int32_t page) {
  Entry& entry = entries_[static_cast<size_t>(page)];
  LORICA_CHECK(entry.references > 0);
  if (--entry.references == 0) free_.push_back(page);
}

const KvIdentity& KvAllocator::identity(int32_t page) const {
  const Entry& entry = entries_[static_cast<size_t>(page)];
  LORICA_DCHECK(entry.references > 0);
  return entry.identity;
}

Status KvAllocator::CheckIntegrity() const {
  std::vector<bool> is_free(entries_.size(), false);
  for (int32_t page : free_) {
    const std::string name = "K/V page " + std::to_string(page);
    if (page < 0 || page >= pages()) return Internal(name + " is in the free list and not a page");
    if (is_free[static_cast<size_t>(page)]) return Internal(name + " is in the free list twice");
    is_free[static_cast<size_t>(page)] = true;
  }
  for (int32_t page = 0; page < pages(); ++page) {
    const int32_t held = references(page);
    if (held < 0 || (held > 0) == is_free[static_cast<size_t>(page)]) {
      return Internal("K/V page " + std::to_string(page) + " has " + std::to_string(held) +
                      " holders and is " + (is_free[static_cast<size_t>(page)] ? "" : "not ") +
                      "in the free list");
    }
  }
  return OkStatus();
}

int32_t PagesFor(int64_t tokens) {
  return static_cast<int32_t>((tokens + kernels::kPageTokens - 1) / kernels::kPageTokens);
}

}  // namespace lorica::engine
