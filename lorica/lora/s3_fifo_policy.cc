#include "lorica/lora/s3_fifo_policy.h"

#include <algorithm>

#include "lorica/base/check.h"

namespace lorica::lora {
namespace {

constexpr int kMostUses = 3;
constexpr size_t kSmallPart = 10;  // one item in ten is in the small queue

}  // namespace

void S3FifoPolicy::Insert(const Item& item) {
  Entry& entry = entries_[item.key];
  const auto ghost = ghosts_.find(item.key);
  entry.in_main = ghost != ghosts_.end();
  if (entry.in_main) {
    ghost_.erase(ghost->second);
    ghosts_.erase(ghost);
  }
  std::list<uint64_t>& queue = entry.in_main ? main_ : small_;
  queue.push_back(item.key);
  entry.place = std::prev(queue.end());
}

void S3FifoPolicy::Touch(uint64_t key) {
  const auto found = entries_.find(key);
  if (found != entries_.end()) found->second.uses = std::min(kMostUses, found->second.uses + 1);
}

void S3FifoPolicy::Remember(uint64_t key) {
  ghost_.push_back(key);
  ghosts_[key] = std::prev(ghost_.end());
  while (ghost_.size() > std::max<size_t>(1, main_.size() + small_.size())) {
    ghosts_.erase(ghost_.front());
    ghost_.pop_front();
  }
}

void S3FifoPolicy::Evict(uint64_t key) {
  const auto found = entries_.find(key);
  LORICA_CHECK(found != entries_.end());
  const bool was_small = !found->second.in_main;
  (was_small ? small_ : main_).erase(found->second.place);
  entries_.erase(found);
  if (was_small) Remember(key);
}

void S3FifoPolicy::Forget(uint64_t key) {
  const auto ghost = ghosts_.find(key);
  if (ghost != ghosts_.end()) {
    ghost_.erase(ghost->second);
    ghosts_.erase(ghost);
  }
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  (found->second.in_main ? main_ : small_).erase(found->second.place);
  entries_.erase(found);
}

std::optional<uint64_t> S3FifoPolicy::FromSmall(const std::function<bool(uint64_t)>& may_go) {
  for (auto it = small_.begin(); it != small_.end();) {
    const uint64_t key = *it++;
    Entry& entry = entries_.at(key);
    if (entry.uses > 1) {
      entry.uses = 0;
      entry.in_main = true;
      main_.splice(main_.end(), small_, entry.place);
    } else if (may_go(key)) {
      return key;
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> S3FifoPolicy::FromMain(const std::function<bool(uint64_t)>& may_go) {
  // Each item is passed over kMostUses times at most before its uses are gone.
  for (size_t left = main_.size() * (kMostUses + 1); left > 0; --left) {
    const uint64_t key = main_.front();
    Entry& entry = entries_.at(key);
    if (entry.uses == 0 && may_go(key)) return key;
    entry.uses = std::max(0, entry.uses - 1);
    main_.splice(main_.end(), main_, entry.place);
  }
  return std::nullopt;
}

std::optional<uint64_t> S3FifoPolicy::Victim(const std::function<bool(uint64_t)>& may_go) {
  if (small_.size() * kSmallPart >= entries_.size()) {
    if (const auto key = FromSmall(may_go)) return key;
    return FromMain(may_go);
  }
  if (const auto key = FromMain(may_go)) return key;
  return FromSmall(may_go);
}

}  // namespace lorica::lora
