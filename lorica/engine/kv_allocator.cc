#include "lorica/engine/kv_allocator.h"

#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "lorica/kernels/params.h"

namespace lorica::engine {

KvAllocator::KvAllocator(int32_t pages)
    : entries_(static_cast<size_t>(pages)), spare_places_(static_cast<size_t>(pages)) {
  LORICA_CHECK(pages >= 1);
  free_.reserve(entries_.size());
  // Descending, so that the first pages handed out are the lowest.
  for (int32_t page = pages - 1; page >= 0; --page) free_.push_back(page);
  by_key_.reserve(entries_.size());
  for (int32_t page = 0; page < pages; ++page) {
    PageKey any{};
    std::memcpy(any.data(), &page, sizeof(page));
    by_key_.emplace(any, page);
  }
  spare_keys_.reserve(entries_.size());
  while (!by_key_.empty()) spare_keys_.push_back(by_key_.extract(by_key_.begin()));
}

std::optional<int32_t> KvAllocator::Allocate(const KvIdentity& identity) {
  if (free_.empty()) {
    if (cached_.empty()) return std::nullopt;
    const int32_t oldest = cached_.front();
    spare_places_.splice(spare_places_.end(), cached_, cached_.begin());
    DropKey(oldest);
    free_.push_back(oldest);
  }
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
  if (--entry.references > 0) return;
  if (!entry.key.has_value()) {
    free_.push_back(page);
    return;
  }
  cached_.splice(cached_.end(), spare_places_, spare_places_.begin());
  cached_.back() = page;
  entry.place = std::prev(cached_.end());
}

size_t KvAllocator::KeyHash::operator()(const PageKey& key) const {
  size_t hash = 0;
  std::memcpy(&hash, key.data(), sizeof(hash));  // a part of a SHA-256
  return hash;
}

void KvAllocator::SetKey(int32_t page, const PageKey& key) {
  Entry& entry = entries_[static_cast<size_t>(page)];
  LORICA_CHECK(entry.references > 0);
  if (entry.key.has_value()) return;
  if (by_key_.contains(key)) return;
  PageByKey::node_type node = std::move(spare_keys_.back());
  spare_keys_.pop_back();
  node.key() = key;
  node.mapped() = page;
  by_key_.insert(std::move(node));
  entry.key = key;
}

void KvAllocator::DropKey(int32_t page) {
  Entry& entry = entries_[static_cast<size_t>(page)];
  spare_keys_.push_back(by_key_.extract(*entry.key));
  entry.key.reset();
}

std::optional<int32_t> KvAllocator::Find(const PageKey& key) const {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return std::nullopt;
  return found->second;
}

void KvAllocator::Reuse(int32_t page) {
  Entry& entry = entries_[static_cast<size_t>(page)];
  LORICA_CHECK(entry.key.has_value());
  if (entry.references++ == 0) {
    spare_places_.splice(spare_places_.end(), cached_, entry.place);
  }
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
  for (int32_t page : cached_) {
    const Entry& entry = entries_[static_cast<size_t>(page)];
    if (is_free[static_cast<size_t>(page)] || !entry.key.has_value()) {
      return Internal("K/V page " + std::to_string(page) + " is kept for reuse and " +
                      (entry.key.has_value() ? "free as well" : "has no key"));
    }
    is_free[static_cast<size_t>(page)] = true;
  }
  for (const auto& [key, page] : by_key_) {
    if (entries_[static_cast<size_t>(page)].key != key) {
      return Internal("K/V page " + std::to_string(page) + " is found by a key not its own");
    }
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
