// Registry: names to immutable versions. Publishing is one atomic swap under a short lock;
// requests in flight keep the version they began with through their AdapterRef. Any thread may
// call it; its cost does not grow with the number of names.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lorica/base/status.h"
#include "lorica/lora/tiered_adapter.h"

namespace lorica::lora {

// An adapter published under a name. Immutable but for the count of its users.
class Version {
 public:
  Version(std::string name, uint64_t number, AdapterHold adapter)
      : name_(std::move(name)), number_(number), adapter_(std::move(adapter)) {}

  const std::string& name() const { return name_; }
  uint64_t number() const { return number_; }  // ascending over all publishes
  const AdapterHold& adapter() const { return adapter_; }
  const std::string& digest() const { return adapter_->digest; }
  int32_t users() const { return users_.load(std::memory_order_acquire); }

 private:
  friend class AdapterRef;
  std::string name_;
  uint64_t number_;
  AdapterHold adapter_;
  std::atomic<int32_t> users_{0};
};

// A pin: while it lives, this version lives and can be fetched. Empty for the base model.
// Move-only; the request owns it.
class AdapterRef {
 public:
  AdapterRef() = default;
  explicit AdapterRef(std::shared_ptr<Version> version);
  ~AdapterRef();
  AdapterRef(AdapterRef&& other) noexcept;
  AdapterRef& operator=(AdapterRef&& other) noexcept;
  AdapterRef(const AdapterRef&) = delete;
  AdapterRef& operator=(const AdapterRef&) = delete;

  bool is_base() const { return version_ == nullptr; }
  const Version& version() const { return *version_; }
  // For further pins of the same version.
  const std::shared_ptr<Version>& shared() const { return version_; }

 private:
  std::shared_ptr<Version> version_;
};

class Registry {
 public:
  // Makes `adapter` the current version of `name`, old or new.
  std::shared_ptr<Version> Publish(const std::string& name, AdapterHold adapter);
  // Remembers that `name` was given and why it is not served; Acquire answers with it.
  void Refuse(const std::string& name, Status reason);
  // Forgets the name; versions in flight live on. NOT_FOUND if there is none.
  Status Remove(const std::string& name);

  // Pins the current version. NOT_FOUND with the reason: never published, removed, or refused.
  Result<AdapterRef> Acquire(const std::string& name) const;
  bool Contains(const std::string& name) const;
  // Current versions, by name.
  std::vector<std::shared_ptr<const Version>> List() const;
  // Names that were given and are not served, with the reason, by name.
  std::vector<std::pair<std::string, Status>> Refused() const;

  Status CheckIntegrity() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Version>, std::less<>> current_;
  std::map<std::string, Status, std::less<>> refused_;
  uint64_t next_number_ = 1;
};

}  // namespace lorica::lora
