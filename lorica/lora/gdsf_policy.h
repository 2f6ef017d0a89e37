// For tests: a policy that lost the study of docs/decisions/eviction.md.
// GDSF: Greedy-Dual-Size-Frequency (Cherkasova 1998). An item's priority is L + uses * cost /
// bytes; the lowest goes, and L rises to its priority, so that what is not used ages. With
// `remember`, uses are kept over an eviction, halved every so many touches: an adapter that comes
// back is as dear as it was, and a scan's items are as cheap as they look.
#pragma once

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>
#include <utility>

#include "lorica/base/check.h"
#include "lorica/lora/eviction_policy.h"

namespace lorica::lora {

class GdsfPolicy : public EvictionPolicy {
 public:
  enum class Memory { kForget, kRemember };
  explicit GdsfPolicy(Memory memory) : memory_(memory) {}

  std::string_view name() const override {
    return memory_ == Memory::kRemember ? "GDSF, remembering" : "GDSF";
  }
  void Insert(const Item& item) override;
  void Touch(uint64_t key) override;
  void Evict(uint64_t key) override;
  void Forget(uint64_t key) override;
  std::optional<uint64_t> Victim(const std::function<bool(uint64_t)>& may_go) override;

 private:
  struct Entry {
    double value = 0.0;  // cost / bytes
    double priority = 0.0;
  };
  struct Uses {
    double count = 0.0;
    uint64_t age = 0;  // when count was written
  };

  // One more use; the count so far, aged.
  double CountUse(uint64_t key);
  void Place(uint64_t key, Entry* entry);

  const Memory memory_;
  double floor_ = 0.0;  // L
  uint64_t touches_ = 0;
  uint64_t age_ = 0;
  std::unordered_map<uint64_t, Entry> entries_;
  std::unordered_map<uint64_t, Uses> uses_;  // with kRemember also of the evicted
  std::set<std::pair<double, uint64_t>> order_;
};

// Touches for each item of the tier after which a use counts half.
inline constexpr uint64_t kTouchesToHalf = 64;

inline double GdsfPolicy::CountUse(uint64_t key) {
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

inline void GdsfPolicy::Place(uint64_t key, Entry* entry) {
  entry->priority = floor_ + CountUse(key) * entry->value;
  order_.emplace(entry->priority, key);
}

inline void GdsfPolicy::Insert(const Item& item) {
  Entry& entry = entries_[item.key];
  entry.value = item.cost / static_cast<double>(std::max<int64_t>(1, item.bytes));
  Place(item.key, &entry);
}

inline void GdsfPolicy::Touch(uint64_t key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  order_.erase({found->second.priority, key});
  Place(key, &found->second);
}

inline void GdsfPolicy::Evict(uint64_t key) {
  const auto found = entries_.find(key);
  LORICA_CHECK(found != entries_.end());
  floor_ = std::max(floor_, found->second.priority);
  order_.erase({found->second.priority, key});
  entries_.erase(found);
  if (memory_ == Memory::kForget) uses_.erase(key);
}

inline void GdsfPolicy::Forget(uint64_t key) {
  uses_.erase(key);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  order_.erase({found->second.priority, key});
  entries_.erase(found);
}

inline std::optional<uint64_t> GdsfPolicy::Victim(const std::function<bool(uint64_t)>& may_go) {
  for (const auto& [priority, key] : order_) {
    if (may_go(key)) return key;
  }
  return std::nullopt;
}

}  // namespace lorica::lora
