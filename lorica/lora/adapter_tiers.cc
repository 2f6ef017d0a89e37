#include "lorica/lora/adapter_tiers.h"

#include <algorithm>
#include <utility>

#include "lorica/lora/s3_fifo_policy.h"

namespace lorica::lora {
namespace {

std::vector<TieredAdapter::Weighted>::iterator FindWeighted(TieredAdapter::State* state,
                                                            double weight) {
  return std::find_if(state->others.begin(), state->others.end(),
                      [weight](const auto& other) { return other.weight == weight; });
}

}  // namespace

std::string_view AdapterTierName(AdapterTier tier) {
  switch (tier) {
    case AdapterTier::kStored:
      return "stored";
    case AdapterTier::kCold:
      return "cold";
    case AdapterTier::kHot:
      return "hot";
  }
  return "unknown";
}

AdapterTiers::AdapterTiers(const Options& options)
    : options_(options),
      hot_policy_(std::make_unique<S3FifoPolicy>()),
      cold_policy_(std::make_unique<S3FifoPolicy>()) {
  LORICA_CHECK(options_.cache != nullptr && options_.base != nullptr);
}

AdapterTiers::~AdapterTiers() { LORICA_CHECK(by_digest_.empty()); }

Result<AdapterHold> AdapterTiers::Add(const AdapterSource& source,
                                      std::shared_ptr<const Adapter> adapter) {
  LORICA_CHECK(adapter != nullptr);
  LORICA_RETURN_IF_ERROR(options_.cache->CheckFits(*adapter));
  Dropped dropped;
  std::lock_guard lock(mutex_);
  const auto found = by_digest_.find(adapter->digest());
  if (found != by_digest_.end()) {
    // Null when its last holder has just gone: then it is taken in anew.
    AdapterHold known = found->second.lock();
    if (known != nullptr) {
      if (!source.path.empty()) {
        known->state.path = source.path;
        known->state.identity = source.identity;
      }
      return known;
    }
    by_digest_.erase(found);
  }
  AdapterHold hold(new TieredAdapter(), [this](TieredAdapter* last) { Discard(last); });
  hold->key = next_key_++;
  hold->digest = adapter->digest();
  hold->max_rank = adapter->max_rank();
  hold->sites = static_cast<int32_t>(adapter->sites().size());
  hold->bytes = adapter->bytes();
  hold->tile_bytes = options_.cache->TileBytes(*adapter);
  hold->state.path = source.path;
  hold->state.identity = source.identity;
  hold->state.last_used = std::chrono::steady_clock::now();
  by_digest_.emplace(hold->digest, hold);
  ++totals_.adapters;
  KeepCold(hold.get(), std::move(adapter), &dropped);
  return hold;
}

void AdapterTiers::Discard(TieredAdapter* adapter) {
  Dropped dropped;
  std::unique_lock lock(mutex_);
  TieredAdapter::State& state = adapter->state;
  LORICA_CHECK(state.running == 0 && state.others.empty());
  if (state.pins > 0) pinned_bytes_ -= adapter->tile_bytes;
  const auto found = by_digest_.find(adapter->digest);
  if (found != by_digest_.end() && found->first.data() == adapter->digest.data()) {
    by_digest_.erase(found);
  }
  --totals_.adapters;
  DropCold(adapter, &dropped);
  if (state.slot.has_value()) EvictHot(&lock, adapter);
  hot_policy_->Forget(adapter->key);
  cold_policy_->Forget(adapter->key);
  RoomMayBeThere();
  lock.unlock();
  delete adapter;
}

Status AdapterTiers::Pin(const AdapterHold& adapter) {
  std::lock_guard lock(mutex_);
  TieredAdapter::State& state = adapter->state;
  if (state.pins == 0) {
    const int64_t arena = options_.cache->pool().arena_bytes();
    if (pinned_bytes_ + adapter->tile_bytes > arena / 4 * 3) {
      return ResourceExhausted("adapter " + adapter->digest.substr(0, 12) + " needs " +
                               std::to_string(adapter->tile_bytes) + " bytes, pinned are " +
                               std::to_string(pinned_bytes_) + ", and at most three quarters of " +
                               std::to_string(arena) + " may be");
    }
    pinned_bytes_ += adapter->tile_bytes;
  }
  ++state.pins;
  if (!state.slot.has_value()) Enqueue(adapter);
  return OkStatus();
}

void AdapterTiers::Unpin(const AdapterHold& adapter) {
  std::lock_guard lock(mutex_);
  LORICA_CHECK(adapter->state.pins > 0);
  if (--adapter->state.pins > 0) return;
  pinned_bytes_ -= adapter->tile_bytes;
  RoomMayBeThere();
}

void AdapterTiers::Arrive(const AdapterHold& adapter) {
  std::lock_guard lock(mutex_);
  TieredAdapter::State& state = adapter->state;
  ++state.waiting;
  state.failure = nullptr;
  if (state.slot.has_value() && !state.leaving) {
    ++totals_.hits;
  } else {
    ++totals_.misses;
    Enqueue(adapter);
  }
}

std::optional<SlotId> AdapterTiers::SlotFor(TieredAdapter* adapter, double weight,
                                            std::unique_lock<std::mutex>* lock) {
  TieredAdapter::State& state = adapter->state;
  if (weight == 1.0) return state.slot;
  const auto found = FindWeighted(&state, weight);
  if (found != state.others.end()) {
    ++found->users;
    return found->slot;
  }
  Result<SlotId> slot = options_.cache->AddWeighted(adapter->digest, weight);
  if (!slot.ok()) {
    // All slots are taken: one that nobody runs with gives its own up.
    TieredAdapter* victim = IdleVictim();
    if (victim == nullptr || victim == adapter) return std::nullopt;
    EvictHot(lock, victim);
    if (!state.slot.has_value()) return std::nullopt;
    slot = options_.cache->AddWeighted(adapter->digest, weight);
    if (!slot.ok()) return std::nullopt;
  }
  state.others.push_back({weight, *slot, 1});
  return *slot;
}

std::optional<SlotId> AdapterTiers::Acquire(const AdapterHold& adapter, double weight) {
  std::unique_lock lock(mutex_);
  TieredAdapter::State& state = adapter->state;
  if (!state.slot.has_value() || state.leaving) {
    Enqueue(adapter);
    return std::nullopt;
  }
  ++state.running;  // first, so that it is no victim
  const std::optional<SlotId> slot = SlotFor(adapter.get(), weight, &lock);
  if (!slot.has_value()) {
    --state.running;
    return std::nullopt;
  }
  --state.waiting;
  state.last_used = std::chrono::steady_clock::now();
  hot_policy_->Touch(adapter->key);
  return slot;
}

void AdapterTiers::GiveBack(TieredAdapter* adapter, double weight) {
  TieredAdapter::State& state = adapter->state;
  LORICA_CHECK(state.running > 0);
  if (weight != 1.0) {
    const auto found = FindWeighted(&state, weight);
    LORICA_CHECK(found != state.others.end());
    if (--found->users == 0) {
      options_.cache->RemoveWeighted(adapter->digest, found->slot);
      state.others.erase(found);
    }
  }
  state.last_used = std::chrono::steady_clock::now();
  if (--state.running == 0) RoomMayBeThere();
}

void AdapterTiers::StepBack(const AdapterHold& adapter, double weight) {
  std::lock_guard lock(mutex_);
  ++adapter->state.waiting;
  GiveBack(adapter.get(), weight);
  if (adapter->state.leaving) Enqueue(adapter);
}

void AdapterTiers::LeaveWaiting(const AdapterHold& adapter) {
  std::lock_guard lock(mutex_);
  LORICA_CHECK(adapter->state.waiting > 0);
  if (--adapter->state.waiting == 0) RoomMayBeThere();
}

void AdapterTiers::LeaveRunning(const AdapterHold& adapter, double weight) {
  std::lock_guard lock(mutex_);
  GiveBack(adapter.get(), weight);
}

bool AdapterTiers::Protected(const TieredAdapter& adapter) const {
  const TieredAdapter::State& state = adapter.state;
  return state.pins > 0 || state.running > 0 ||
         (state.waiting > 0 && !state.leaving &&
          adapter.rows.load(std::memory_order_relaxed) < options_.quantum);
}

const TieredAdapter* AdapterTiers::ChooseLeaving() {
  if (!starving_.load(std::memory_order_acquire)) return nullptr;
  std::lock_guard lock(mutex_);
  TieredAdapter* chosen = nullptr;
  for (const auto& [key, adapter] : hot_) {
    const TieredAdapter::State& state = adapter->state;
    if (!Protected(*adapter)) {
      RoomMayBeThere();
      return nullptr;
    }
    if (state.leaving) return nullptr;  // one at a time
    if (state.pins > 0 || adapter->rows < options_.quantum) continue;
    if (chosen == nullptr || adapter->rows > chosen->rows) chosen = adapter;
  }
  if (chosen != nullptr) chosen->state.leaving = true;
  return chosen;
}

Status AdapterTiers::Failure(const AdapterHold& adapter) const {
  std::lock_guard lock(mutex_);
  return adapter->state.failure != nullptr ? *adapter->state.failure : OkStatus();
}

void AdapterTiers::CompactIfAsked() {
  if (!compact_asked_.load(std::memory_order_acquire)) return;
  if (!options_.cache->Compact()) return;
  std::lock_guard lock(mutex_);
  compact_asked_.store(false, std::memory_order_release);
  compacted_.notify_all();
}

AdapterTiers::Info AdapterTiers::Describe(const AdapterHold& adapter) const {
  std::lock_guard lock(mutex_);
  const TieredAdapter::State& state = adapter->state;
  Info info;
  if (state.slot.has_value()) {
    info.tier = AdapterTier::kHot;
  } else if (state.cold != nullptr) {
    info.tier = AdapterTier::kCold;
  }
  info.pinned = state.pins > 0;
  info.queued = state.queued;
  info.running = state.running;
  info.waiting = state.waiting;
  info.loads = state.loads;
  info.evictions = state.evictions;
  if (state.failure != nullptr) info.failure = *state.failure;
  info.idle_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - state.last_used).count();
  return info;
}

AdapterTiers::Totals AdapterTiers::totals() const {
  std::lock_guard lock(mutex_);
  Totals totals = totals_;
  totals.hot_bytes = options_.cache->used_bytes();
  return totals;
}

Status AdapterTiers::CheckIntegrity() const {
  std::lock_guard lock(mutex_);
  for (const auto& [key, adapter] : hot_) {
    const TieredAdapter::State& state = adapter->state;
    const std::string name = "tiers: adapter " + adapter->digest.substr(0, 12);
    if (state.running < 0 || state.waiting < 0) return Internal(name + " has negative users");
    if (!state.slot.has_value() || options_.cache->FindSlot(adapter->digest) != state.slot) {
      return Internal(name + " has another slot than the cache says");
    }
  }
  int64_t cold_bytes = 0;
  for (const auto& [key, adapter] : cold_) {
    const TieredAdapter::State& state = adapter->state;
    const std::string name = "tiers: adapter " + adapter->digest.substr(0, 12);
    if (state.cold == nullptr) return Internal(name + " is named cold and is not");
    if (state.running > 0 && !state.slot.has_value()) {
      return Internal(name + " is used and not hot");
    }
    cold_bytes += state.cold->bytes();
  }
  if (static_cast<int64_t>(cold_.size()) != totals_.cold || cold_bytes != totals_.cold_bytes ||
      static_cast<int64_t>(hot_.size()) != totals_.hot) {
    return Internal("tiers: counts of hot or cold adapters do not agree");
  }
  return OkStatus();
}

}  // namespace lorica::lora
