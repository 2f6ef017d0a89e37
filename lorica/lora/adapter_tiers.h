// AdapterTiers: in which tier each adapter lies and who makes room for whom. Hot: tiles in the
// arena (AdapterCache). Cold: factors in host memory, under a budget of its own. Stored: its files.
//
// A sequence whose adapter is not hot waits alone. Its adapter joins a queue, first asked first
// fetched. A fetch makes room by evicting adapters that nobody runs with, by EvictionPolicy; never
// one that is pinned, that a sequence runs with, or that came in for a waiting sequence and has not
// yet computed `quantum` rows. When only such are hot, the one with most rows above the quantum is
// told to leave: its sequences give their places back and queue again.
//
// Bound: a fetched adapter keeps its room for at most `quantum` rows while others wait, so the n-th
// in the queue is hot after at most n times (the steps that compute quantum rows of one sequence,
// as the scheduler bounds them, and one fetch).
//
// Thread rule: any thread may call anything. Fetches run on the caller of FetchNext, one at a time,
// and hold no lock while they read or pack; what the engine calls takes one short lock and never
// waits for a file or for packing. Owned by the engine; outlives every AdapterHold.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lorica/lora/adapter_loader.h"
#include "lorica/lora/cache.h"
#include "lorica/lora/eviction_policy.h"
#include "lorica/lora/tiered_adapter.h"

namespace lorica::lora {

class AdapterTiers {
 public:
  struct Options {
    AdapterCache* cache = nullptr;   // outlives the tiers
    const BaseView* base = nullptr;  // likewise; what fetched files are checked against
    LoadOptions load;
    int64_t cold_bytes = 0;
    int64_t quantum = 256;          // rows
    std::function<void()> changed;  // the engine has something to look at; may be empty
  };
  explicit AdapterTiers(const Options& options);
  ~AdapterTiers();
  AdapterTiers(const AdapterTiers&) = delete;
  AdapterTiers& operator=(const AdapterTiers&) = delete;

  // Takes an adapter in, cold if there is room for it. Equal content that is known already is one
  // adapter. OUT_OF_RANGE with both figures if the arena could never hold it.
  Result<AdapterHold> Add(const AdapterSource& source, std::shared_ptr<const Adapter> adapter);
  // Makes it hot if that evicts nothing. Waits for the loader, which does it once no request waits
  // for another, so that who publishes, at the lowest priority, holds no fetch up.
  void Warm(const AdapterHold& adapter);
  // A pinned adapter is hot soon and stays so. RESOURCE_EXHAUSTED if the pinned would leave less
  // than a quarter of the arena to the others.
  Status Pin(const AdapterHold& adapter);
  void Unpin(const AdapterHold& adapter);

  // The engine's, for each sequence in this order: Arrive; then Acquire until it gives a slot;
  // StepBack when the slot is given back and the sequence waits again; Leave from either state.
  void Arrive(const AdapterHold& adapter);
  std::optional<SlotId> Acquire(const AdapterHold& adapter, double weight);
  void StepBack(const AdapterHold& adapter, double weight);
  void LeaveWaiting(const AdapterHold& adapter);
  void LeaveRunning(const AdapterHold& adapter, double weight);
  // The adapter that has to give its room to one that waits for it; null when there is none. The
  // caller makes each of its sequences StepBack. Costs nothing while no fetch waits for room.
  const TieredAdapter* ChooseLeaving();
  // Rises with every fetch that failed; the sequences that wait for it then find Failure.
  uint64_t failures() const { return failures_.load(std::memory_order_acquire); }
  // Why the last fetch failed; OK when it did not, or after a later Arrive.
  Status Failure(const AdapterHold& adapter) const;
  // Between steps: compacts the arena if a fetch asked for it.
  void CompactIfAsked();

  // The loader's. Fetches what is first in the queue, or what Warm was told of when the queue is
  // empty; false when there is neither or the first waits for room.
  bool FetchNext();
  // Blocks until FetchNext may have something to do; false after Stop.
  bool WaitForWork();
  void Stop();

  struct Info {
    AdapterTier tier = AdapterTier::kStored;
    bool pinned = false;
    bool queued = false;
    int32_t running = 0;
    int32_t waiting = 0;
    int64_t loads = 0;
    int64_t evictions = 0;
    Status failure;
    double idle_seconds = 0.0;
  };
  Info Describe(const AdapterHold& adapter) const;
  struct Totals {
    int64_t adapters = 0;  // of distinct content
    int64_t hot = 0;
    int64_t cold = 0;
    int64_t hot_bytes = 0;
    int64_t cold_bytes = 0;
    int64_t hits = 0;    // sequences whose adapter was hot when they arrived
    int64_t misses = 0;  // and those whose was not
    int64_t loads_from_files = 0;
    int64_t loads = 0;  // into the arena
    int64_t evictions = 0;
    int64_t evictions_cold = 0;
    int64_t fetch_ns = 0;
  };
  Totals totals() const;
  Status CheckIntegrity() const;

 private:
  enum class Fetched { kDone, kNoRoom };
  // How room is made for a fetch: by evicting others, or not at all.
  enum class Eviction { kAllowed, kNone };
  enum class Room { kMade, kWait, kNever };
  using Dropped = std::vector<std::shared_ptr<const Adapter>>;

  Result<std::shared_ptr<const Adapter>> Read(TieredAdapter* adapter);
  Fetched Fetch(const AdapterHold& adapter, Eviction eviction);
  bool WarmNext();
  void ForgetWarming();
  Room MakeRoom();
  TieredAdapter* IdleVictim();
  // Unlocks while the tiles go back.
  void EvictHot(std::unique_lock<std::mutex>* lock, TieredAdapter* victim);
  bool ShrinkCold(const TieredAdapter& keep, Dropped* dropped);
  void KeepCold(TieredAdapter* adapter, std::shared_ptr<const Adapter> content, Dropped* dropped);
  void DropCold(TieredAdapter* adapter, Dropped* dropped);
  void Enqueue(const AdapterHold& adapter);
  void GiveBack(TieredAdapter* adapter, double weight);
  std::optional<SlotId> SlotFor(TieredAdapter* adapter, double weight,
                                std::unique_lock<std::mutex>* lock);
  void RoomMayBeThere();
  void Fail(TieredAdapter* adapter, Status reason);
  void AskToCompact();
  // The last holder of an adapter is gone.
  void Discard(TieredAdapter* adapter);
  bool Protected(const TieredAdapter& adapter) const;
  void Changed() const {
    if (options_.changed) options_.changed();
  }

  const Options options_;
  std::mutex fetching_;  // held over one fetch; before mutex_
  // Guarded by fetching_: what was read for a fetch that then found no room.
  std::shared_ptr<const Adapter> read_ahead_;
  std::atomic<uint64_t> failures_{0};
  std::atomic<bool> starving_{false};  // the first in the queue found no room
  std::atomic<bool> compact_asked_{false};

  mutable std::mutex mutex_;  // guards all below and every TieredAdapter::state
  std::condition_variable work_;
  std::condition_variable compacted_;
  std::condition_variable warmed_;
  std::unordered_map<std::string_view, std::weak_ptr<TieredAdapter>> by_digest_;
  // By key. What is stored only is in neither, so that no step looks at it.
  std::unordered_map<uint64_t, TieredAdapter*> hot_;
  std::unordered_map<uint64_t, TieredAdapter*> cold_;
  std::unique_ptr<EvictionPolicy> hot_policy_;
  std::unique_ptr<EvictionPolicy> cold_policy_;
  std::deque<std::weak_ptr<TieredAdapter>> queue_;
  std::deque<std::weak_ptr<TieredAdapter>> to_warm_;
  uint64_t warm_asked_ = 0;
  uint64_t warm_answered_ = 0;
  uint64_t next_key_ = 1;
  int64_t pinned_bytes_ = 0;
  bool stopped_ = false;
  Totals totals_;
};

}  // namespace lorica::lora
