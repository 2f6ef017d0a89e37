// EvictionPolicy: which of the adapters in a tier goes first when room is needed. Owned by
// AdapterTiers, whose lock serialises all calls; no call's cost grows with what is not in the tier
// (what a policy remembers of the evicted is found by hash). docs/decisions/eviction.md says how
// the one in use was chosen.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

namespace lorica::lora {

class EvictionPolicy {
 public:
  struct Item {
    uint64_t key = 0;
    int64_t bytes = 0;
    double cost = 0.0;  // of bringing it in again, in any unit
  };

  virtual ~EvictionPolicy() = default;
  virtual std::string_view name() const = 0;

  // `item` came into the tier. It is not there yet.
  virtual void Insert(const Item& item) = 0;
  // It was used once more; coming in is a use.
  virtual void Touch(uint64_t key) = 0;
  // It left the tier to make room. What is remembered of it serves when it comes back.
  virtual void Evict(uint64_t key) = 0;
  // It is no more: nothing is remembered. Unknown keys are ignored.
  virtual void Forget(uint64_t key) = 0;
  // The first to go among those that `may_go` allows; stays in until Evict.
  virtual std::optional<uint64_t> Victim(const std::function<bool(uint64_t)>& may_go) = 0;
};

}  // namespace lorica::lora
