// The loader's side of AdapterTiers: stored to cold to hot, and who makes room.
#include <algorithm>
#include <utility>

#include "lorica/base/log.h"
#include "lorica/base/thread_priority.h"
#include "lorica/lora/adapter_tiers.h"

namespace lorica::lora {
namespace {

// An engine that is not stepping compacts nothing; then eviction makes the room.
constexpr std::chrono::milliseconds kCompactionWait{50};

// Of bringing an adapter in again: the work that does not depend on its size, in bytes that could
// be packed meanwhile, and its own bytes.
constexpr double kFetchCost = 1 << 20;
double CostOf(const TieredAdapter& adapter) {
  return kFetchCost + static_cast<double>(adapter.bytes);
}

}  // namespace

void AdapterTiers::Warm(const AdapterHold& adapter) {
  std::unique_lock lock(mutex_);
  if (stopped_ || starving_.load()) return;
  to_warm_.push_back(adapter);
  const uint64_t turn = ++warm_asked_;
  work_.notify_all();
  warmed_.wait(lock, [&] { return stopped_ || warm_answered_ >= turn; });
}

void AdapterTiers::ForgetWarming() {
  to_warm_.clear();
  warm_answered_ = warm_asked_;
  warmed_.notify_all();
}

void AdapterTiers::Enqueue(const AdapterHold& adapter) {
  if (adapter->state.queued) return;
  adapter->state.queued = true;
  queue_.push_back(adapter);
  work_.notify_all();
}

void AdapterTiers::RoomMayBeThere() {
  if (!starving_.exchange(false)) return;
  work_.notify_all();
}

bool AdapterTiers::WaitForWork() {
  std::unique_lock lock(mutex_);
  work_.wait(lock, [&] {
    return stopped_ || (!starving_.load() && !(queue_.empty() && to_warm_.empty()));
  });
  return !stopped_;
}

void AdapterTiers::Stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  ForgetWarming();
  work_.notify_all();
  compacted_.notify_all();
}

bool AdapterTiers::FetchNext() {
  std::lock_guard fetching(fetching_);
  AdapterHold next;
  {
    // Whoever is let go of here may be the last: it goes after the lock.
    std::vector<AdapterHold> passed;
    std::lock_guard lock(mutex_);
    while (!queue_.empty() && next == nullptr) {
      AdapterHold first = queue_.front().lock();
      const bool wanted = first != nullptr && (first->state.waiting > 0 || first->state.pins > 0) &&
                          !(first->state.slot.has_value() && !first->state.leaving);
      if (wanted) {
        next = std::move(first);
        break;
      }
      if (first != nullptr) first->state.queued = false;
      passed.push_back(std::move(first));
      queue_.pop_front();
    }
  }
  if (next == nullptr) return WarmNext();
  if (Fetch(next, Eviction::kAllowed) == Fetched::kNoRoom) {
    {
      std::lock_guard lock(mutex_);
      starving_.store(true, std::memory_order_release);
      ForgetWarming();
    }
    Changed();
    return false;
  }
  std::lock_guard lock(mutex_);
  TieredAdapter::State& state = next->state;
  state.queued = false;
  queue_.pop_front();
  // Someone who came after a failure was told of found it queued still.
  if (!state.slot.has_value() && state.failure == nullptr && state.waiting > 0) Enqueue(next);
  return true;
}

bool AdapterTiers::WarmNext() {
  AdapterHold next;
  {
    std::lock_guard lock(mutex_);
    if (to_warm_.empty()) return false;
    next = to_warm_.front().lock();
    to_warm_.pop_front();
  }
  if (next != nullptr && next->tile_bytes <= options_.cache->free_bytes()) {
    const ScopedUnhurried unhurried;
    Fetch(next, Eviction::kNone);
  }
  next.reset();  // before anyone counts on its tiles being his alone
  std::lock_guard lock(mutex_);
  ++warm_answered_;
  warmed_.notify_all();
  return true;
}

Result<std::shared_ptr<const Adapter>> AdapterTiers::Read(TieredAdapter* adapter) {
  std::string path;
  {
    std::lock_guard lock(mutex_);
    path = adapter->state.path;
  }
  LORICA_ASSIGN_OR_RETURN(const FileIdentity before, ReadFileIdentity(path));
  LoadOptions load = options_.load;
  {
    std::lock_guard lock(mutex_);
    const auto& refusal = adapter->state.refusal;
    if (refusal != nullptr && refusal->identity == before) return refusal->reason;
    if (before == adapter->state.identity) load.known_digest = adapter->digest;
  }
  LORICA_ASSIGN_OR_RETURN(std::shared_ptr<const Adapter> content,
                          LoadAdapter(path, *options_.base, load, nullptr));
  LORICA_ASSIGN_OR_RETURN(const FileIdentity after, ReadFileIdentity(path));
  if (!(after == before)) {
    return Unavailable("adapter " + adapter->digest.substr(0, 12) +
                       ": its files changed while they were read");
  }
  std::lock_guard lock(mutex_);
  ++totals_.loads_from_files;
  if (content->digest() != adapter->digest) {
    const Status reason =
        FailedPrecondition("its files hold other content than was loaded: expected digest " +
                           adapter->digest + ", found " + content->digest());
    adapter->state.refusal =
        std::make_unique<TieredAdapter::Refusal>(TieredAdapter::Refusal{before, reason});
    return reason;
  }
  adapter->state.identity = before;
  return content;
}

AdapterTiers::Fetched AdapterTiers::Fetch(const AdapterHold& adapter, Eviction eviction) {
  const auto began = std::chrono::steady_clock::now();
  std::shared_ptr<const Adapter> content;
  {
    std::lock_guard lock(mutex_);
    if (adapter->state.slot.has_value()) {
      // It stays after all; those that gave their places back for another may have them again.
      if (std::exchange(adapter->state.leaving, false)) Changed();
      return Fetched::kDone;
    }
    content = adapter->state.cold;
    if (content != nullptr) cold_policy_->Touch(adapter->key);
  }
  if (content == nullptr && read_ahead_ != nullptr && read_ahead_->digest() == adapter->digest) {
    content = read_ahead_;
  }
  read_ahead_ = nullptr;
  if (content == nullptr) {
    Result<std::shared_ptr<const Adapter>> read = Read(adapter.get());
    if (!read.ok()) {
      Fail(adapter.get(), read.status());
      return Fetched::kDone;
    }
    content = *std::move(read);
    Dropped dropped;
    std::lock_guard lock(mutex_);
    KeepCold(adapter.get(), content, &dropped);
  }
  for (bool compacted = false;;) {
    const Result<SlotId> slot = options_.cache->MakeResident(*content);
    if (slot.ok()) {
      std::lock_guard lock(mutex_);
      adapter->state.slot = *slot;
      adapter->state.leaving = false;
      adapter->rows.store(0, std::memory_order_relaxed);
      ++adapter->state.loads;
      hot_[adapter->key] = adapter.get();
      hot_policy_->Insert({adapter->key, adapter->tile_bytes, CostOf(*adapter)});
      ++totals_.hot;
      ++totals_.loads;
      totals_.fetch_ns += std::chrono::duration_cast<std::chrono::nanoseconds>(
                              std::chrono::steady_clock::now() - began)
                              .count();
      break;
    }
    if (slot.status().code() != StatusCode::kResourceExhausted) {
      Fail(adapter.get(), slot.status());
      return Fetched::kDone;
    }
    if (eviction == Eviction::kNone) return Fetched::kNoRoom;
    if (!compacted && options_.cache->FitsCompacted(*content)) {
      compacted = true;
      AskToCompact();
      continue;
    }
    const Room room = MakeRoom();
    if (room == Room::kWait) {
      read_ahead_ = content;
      return Fetched::kNoRoom;
    }
    if (room == Room::kNever) {
      Fail(adapter.get(), ResourceExhausted(slot.status().message() + "; the others are pinned"));
      return Fetched::kDone;
    }
  }
  Changed();
  return Fetched::kDone;
}

void AdapterTiers::AskToCompact() {
  std::unique_lock lock(mutex_);
  compact_asked_.store(true, std::memory_order_release);
  Changed();
  compacted_.wait_for(lock, kCompactionWait, [&] { return stopped_ || !compact_asked_.load(); });
}

TieredAdapter* AdapterTiers::IdleVictim() {
  const auto idle = [&](uint64_t key) { return !Protected(*hot_.at(key)); };
  // One that a sequence waits for goes only when there is no other.
  auto key =
      hot_policy_->Victim([&](uint64_t k) { return idle(k) && hot_.at(k)->state.waiting == 0; });
  if (!key.has_value()) key = hot_policy_->Victim(idle);
  return key.has_value() ? hot_.at(*key) : nullptr;
}

AdapterTiers::Room AdapterTiers::MakeRoom() {
  std::unique_lock lock(mutex_);
  TieredAdapter* victim = IdleVictim();
  if (victim != nullptr) {
    EvictHot(&lock, victim);
    return Room::kMade;
  }
  for (const auto& [key, other] : hot_) {
    if (other->state.pins == 0) return Room::kWait;
  }
  return Room::kNever;
}

void AdapterTiers::EvictHot(std::unique_lock<std::mutex>* lock, TieredAdapter* victim) {
  LORICA_CHECK(victim->state.running == 0 && victim->state.slot.has_value());
  victim->state.slot.reset();
  victim->state.leaving = false;
  ++victim->state.evictions;
  hot_policy_->Evict(victim->key);
  hot_.erase(victim->key);
  --totals_.hot;
  ++totals_.evictions;
  // The victim may be gone once the lock is.
  const std::string digest = victim->digest;
  lock->unlock();
  options_.cache->Evict(digest);
  lock->lock();
}

void AdapterTiers::KeepCold(TieredAdapter* adapter, std::shared_ptr<const Adapter> content,
                            Dropped* dropped) {
  if (adapter->state.cold != nullptr) return;
  totals_.cold_bytes += content->bytes();
  ++totals_.cold;
  adapter->state.cold = std::move(content);
  cold_[adapter->key] = adapter;
  cold_policy_->Insert({adapter->key, adapter->bytes, CostOf(*adapter)});
  while (totals_.cold_bytes > options_.cold_bytes && ShrinkCold(*adapter, dropped)) {
  }
}

bool AdapterTiers::ShrinkCold(const TieredAdapter& keep, Dropped* dropped) {
  const auto may_go = [&](uint64_t key) {
    return key != keep.key && !cold_.at(key)->state.path.empty();
  };
  // What is hot needs its factors least.
  auto key = cold_policy_->Victim(
      [&](uint64_t k) { return may_go(k) && cold_.at(k)->state.slot.has_value(); });
  if (!key.has_value()) key = cold_policy_->Victim(may_go);
  if (!key.has_value() && !keep.state.path.empty() && keep.state.cold != nullptr) key = keep.key;
  if (!key.has_value()) return false;
  DropCold(cold_.at(*key), dropped);
  ++totals_.evictions_cold;
  return true;
}

void AdapterTiers::DropCold(TieredAdapter* adapter, Dropped* dropped) {
  if (adapter->state.cold == nullptr) return;
  totals_.cold_bytes -= adapter->state.cold->bytes();
  --totals_.cold;
  // Freed by the caller, after the lock.
  dropped->push_back(std::move(adapter->state.cold));
  adapter->state.cold = nullptr;
  cold_policy_->Evict(adapter->key);
  cold_.erase(adapter->key);
}

void AdapterTiers::Fail(TieredAdapter* adapter, Status reason) {
  LogWarning("adapter " + adapter->digest.substr(0, 12) + " is not fetched: " + reason.message());
  {
    std::lock_guard lock(mutex_);
    adapter->state.failure = std::make_unique<Status>(std::move(reason));
  }
  failures_.fetch_add(1, std::memory_order_acq_rel);
  Changed();
}

}  // namespace lorica::lora
