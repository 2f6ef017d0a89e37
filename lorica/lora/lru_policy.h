// For tests: a policy that lost the study of docs/decisions/eviction.md: the least recently used
// goes. One thread at a time.
#pragma once

#include <list>
#include <optional>
#include <unordered_map>

#include "lorica/lora/eviction_policy.h"

namespace lorica::lora {

class LruPolicy : public EvictionPolicy {
 public:
  std::string_view name() const override { return "LRU"; }
  void Insert(const Item& item) override {
    order_.push_back(item.key);
    places_[item.key] = std::prev(order_.end());
  }
  void Touch(uint64_t key) override {
    const auto found = places_.find(key);
    if (found != places_.end()) order_.splice(order_.end(), order_, found->second);
  }
  void Evict(uint64_t key) override { Forget(key); }
  void Forget(uint64_t key) override {
    const auto found = places_.find(key);
    if (found == places_.end()) return;
    order_.erase(found->second);
    places_.erase(found);
  }
  std::optional<uint64_t> Victim(const std::function<bool(uint64_t)>& may_go) override {
    for (uint64_t key : order_) {
      if (may_go(key)) return key;
    }
    return std::nullopt;
  }

 private:
  std::list<uint64_t> order_;  // least recently used first
  std::unordered_map<uint64_t, std::list<uint64_t>::iterator> places_;
};

}  // namespace lorica::lora
