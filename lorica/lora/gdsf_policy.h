// GDSF: Greedy-Dual-Size-Frequency (Cherkasova 1998). An item's priority is L + uses * cost /
// bytes; the lowest goes, and L rises to its priority, so that what is not used ages. With
// `remember`, uses are kept over an eviction, halved every so many touches: an adapter that comes
// back is as dear as it was, and a scan's items are as cheap as they look.
#pragma once

#include <set>
#include <unordered_map>
#include <utility>

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

}  // namespace lorica::lora
