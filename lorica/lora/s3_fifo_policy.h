// S3-FIFO (Yang and others, SOSP 2023): a small queue for newcomers, a main queue for what was used
// again, and a ghost of keys that left the small queue lately. Queues are counted in items.
#pragma once

#include <list>
#include <unordered_map>

#include "lorica/lora/eviction_policy.h"

namespace lorica::lora {

class S3FifoPolicy : public EvictionPolicy {
 public:
  std::string_view name() const override { return "S3-FIFO"; }
  void Insert(const Item& item) override;
  void Touch(uint64_t key) override;
  void Evict(uint64_t key) override;
  void Forget(uint64_t key) override;
  std::optional<uint64_t> Victim(const std::function<bool(uint64_t)>& may_go) override;

 private:
  struct Entry {
    std::list<uint64_t>::iterator place;
    bool in_main = false;
    int uses = 0;  // since it came or was passed over, 3 at most
  };
  void Remember(uint64_t key);
  std::optional<uint64_t> FromSmall(const std::function<bool(uint64_t)>& may_go);
  std::optional<uint64_t> FromMain(const std::function<bool(uint64_t)>& may_go);

  std::list<uint64_t> small_;  // oldest first
  std::list<uint64_t> main_;
  std::list<uint64_t> ghost_;
  std::unordered_map<uint64_t, Entry> entries_;
  std::unordered_map<uint64_t, std::list<uint64_t>::iterator> ghosts_;
};

}  // namespace lorica::lora
