#include "lorica/lora/registry.h"

#include <set>
#include <utility>

namespace lorica::lora {

AdapterRef::AdapterRef(std::shared_ptr<Version> version) : version_(std::move(version)) {
  if (version_ != nullptr) version_->users_.fetch_add(1, std::memory_order_acq_rel);
}

AdapterRef::~AdapterRef() {
  if (version_ != nullptr) version_->users_.fetch_sub(1, std::memory_order_acq_rel);
}

AdapterRef::AdapterRef(AdapterRef&& other) noexcept : version_(std::move(other.version_)) {}

AdapterRef& AdapterRef::operator=(AdapterRef&& other) noexcept {
  // Through a temporary, so that assignment to itself keeps the pin.
  AdapterRef taken(std::move(other));
  std::swap(version_, taken.version_);
  return *this;
}

std::shared_ptr<Version> Registry::Publish(const std::string& name, AdapterHold adapter) {
  LORICA_CHECK(adapter != nullptr);
  // The replaced version may be the last holder of its adapter: it goes after the lock.
  std::shared_ptr<Version> replaced;
  std::lock_guard lock(mutex_);
  auto version = std::make_shared<Version>(name, next_number_++, std::move(adapter));
  std::shared_ptr<Version>& current = current_[name];
  replaced = std::exchange(current, version);
  refused_.erase(name);
  return version;
}

void Registry::Refuse(const std::string& name, Status reason) {
  LORICA_CHECK(!reason.ok());
  std::lock_guard lock(mutex_);
  // A failed replacement does not take away what is served.
  if (current_.contains(name)) return;
  refused_.insert_or_assign(name, std::move(reason));
}

Status Registry::Remove(const std::string& name) {
  std::shared_ptr<Version> removed;
  std::lock_guard lock(mutex_);
  const bool was_refused = refused_.erase(name) > 0;
  const auto found = current_.find(name);
  if (found == current_.end()) {
    return was_refused ? OkStatus() : NotFound("no adapter is named '" + name + "'");
  }
  removed = std::move(found->second);
  current_.erase(found);
  return OkStatus();
}

Result<AdapterRef> Registry::Acquire(const std::string& name) const {
  std::lock_guard lock(mutex_);
  const auto found = current_.find(name);
  // Pinned under the lock: a version without users is then known to stay without them once it is
  // no longer current.
  if (found != current_.end()) return AdapterRef(found->second);
  const auto refused = refused_.find(name);
  if (refused != refused_.end()) {
    return NotFound("adapter '" + name + "' is not served: " + refused->second.message());
  }
  return NotFound("no adapter is named '" + name + "'");
}

bool Registry::Contains(const std::string& name) const {
  std::lock_guard lock(mutex_);
  return current_.contains(name);
}

std::vector<std::shared_ptr<const Version>> Registry::List() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const Version>> versions;
  versions.reserve(current_.size());
  for (const auto& [name, version] : current_) versions.push_back(version);
  return versions;
}

std::vector<std::pair<std::string, Status>> Registry::Refused() const {
  std::lock_guard lock(mutex_);
  return {refused_.begin(), refused_.end()};
}

Status Registry::CheckIntegrity() const {
  std::lock_guard lock(mutex_);
  std::set<uint64_t> numbers;
  for (const auto& [name, version] : current_) {
    if (version == nullptr || version->adapter() == nullptr) {
      return Internal("registry: '" + name + "' has no adapter");
    }
    if (version->name() != name) {
      return Internal("registry: '" + name + "' holds a version of '" + version->name() + "'");
    }
    if (version->users() < 0) return Internal("registry: '" + name + "' has negative users");
    if (version->number() >= next_number_ || !numbers.insert(version->number()).second) {
      return Internal("registry: version number of '" + name + "' is used twice or from later");
    }
    if (refused_.contains(name)) {
      return Internal("registry: '" + name + "' is both served and refused");
    }
  }
  return OkStatus();
}

}  // namespace lorica::lora
