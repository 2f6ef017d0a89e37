#include "lorica/lora/gdsf_policy.h"

#include <algorithm>
#include <cmath>

#include "lorica/base/check.h"

namespace lorica::lora {
namespace {

// Touches for each item of the tier after which a use counts half.
constexpr uint64_t kTouchesToHalf = 64;

}  // namespace

double GdsfPolicy::CountUse(uint64_t key) {
  if (++touches_ >= kTouchesToHalf * std::max<size_t>(1, entries_.size())) {
    touches_ = 0;
    ++age_;
  }
  Uses& uses = uses_[key];
  uses.count = std::ldexp(uses.count, -static_cast<int>(std::min<uint64_t>(60, age_ - uses.age)));
  uses.age = age_;
  uses.count += 1.0;
  return uses.count;
}

void GdsfPolicy::Place(uint64_t key, Entry* entry) {
  entry->priority = floor_ + CountUse(key) * entry->value;
  order_.emplace(entry->priority, key);
}

void GdsfPolicy::Insert(const Item& item) {
  Entry& entry = entries_[item.key];
  entry.value = item.cost / static_cast<double>(std::max<int64_t>(1, item.bytes));
  Place(item.key, &entry);
}

void GdsfPolicy::Touch(uint64_t key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  order_.erase({found->second.priority, key});
  Place(key, &found->second);
}

void GdsfPolicy::Evict(uint64_t key) {
  const auto found = entries_.find(key);
  LORICA_CHECK(found != entries_.end());
  floor_ = std::max(floor_, found->second.priority);
  order_.erase({found->second.priority, key});
  entries_.erase(found);
  if (memory_ == Memory::kForget) uses_.erase(key);
}

void GdsfPolicy::Forget(uint64_t key) {
  uses_.erase(key);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  order_.erase({found->second.priority, key});
  entries_.erase(found);
}

std::optional<uint64_t> GdsfPolicy::Victim(const std::function<bool(uint64_t)>& may_go) {
  for (const auto& [priority, key] : order_) {
    if (may_go(key)) return key;
  }
  return std::nullopt;
}

}  // namespace lorica::lora
