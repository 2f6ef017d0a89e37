// TieredAdapter: one adapter's content as the tiers know it: what it is, where it can be read
// again, and in which tiers it lies now. Made by AdapterTiers::Add; versions and requests share it,
// and when the last of them is gone the tiers take its memory back. The first part never changes
// and any thread reads it; `state` is AdapterTiers', under its lock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lorica/base/status.h"
#include "lorica/lora/adapter.h"
#include "lorica/lora/file_identity.h"
#include "lorica/lora/token_map.h"

namespace lorica::lora {

// Where an adapter's content can be fetched again. No path: nowhere, so that it stays in memory.
struct AdapterSource {
  std::string path;
  FileIdentity identity;  // of the files, taken before they were read
};

enum class AdapterTier : uint8_t { kStored, kCold, kHot };
std::string_view AdapterTierName(AdapterTier tier);

struct TieredAdapter {
  // Fixed.
  uint64_t key = 0;  // ascending
  std::string digest;
  int32_t max_rank = 0;
  int32_t sites = 0;
  int64_t bytes = 0;       // of the factors, in the cold tier
  int64_t tile_bytes = 0;  // in the arena

  // Rows that ran through it since it became hot; the engine counts.
  std::atomic<int64_t> rows{0};

  struct Weighted {
    double weight = 1.0;
    SlotId slot;
    int32_t users = 0;
  };
  // Files whose content was another are not read twice.
  struct Refusal {
    FileIdentity identity;
    Status reason;
  };
  struct State {
    std::string path;       // empty: it cannot be fetched again
    FileIdentity identity;  // of the files when they last held this content
    std::shared_ptr<const Adapter> cold;
    std::optional<SlotId> slot;  // while hot
    int32_t running = 0;         // sequences that hold a slot
    int32_t waiting = 0;         // sequences that arrived and hold none
    bool queued = false;         // to be fetched
    bool leaving = false;        // gives its tiles up as soon as nobody runs with it
    int32_t pins = 0;
    int64_t loads = 0;
    int64_t evictions = 0;
    // Rare, so they take little while there are none: ten thousand names are stored.
    std::vector<Weighted> others;     // further slots, by the weight of the requests in them
    std::unique_ptr<Status> failure;  // of the last fetch; null: it did not fail
    std::unique_ptr<Refusal> refusal;
    std::chrono::steady_clock::time_point last_used;
  };
  State state;
};

using AdapterHold = std::shared_ptr<TieredAdapter>;

}  // namespace lorica::lora
