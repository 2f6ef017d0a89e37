// AdapterCache: which versions are hot, in which slot. Owns pool and weight table. For now every
// version is made hot at start and stays; tiers and eviction come with live adapters.
//
// Thread rule: MakeResident packs on the calling (loader) thread and takes the lock only to
// allocate and to install; the engine thread calls FindSlot and Compact between steps.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "lorica/base/status.h"
#include "lorica/lora/packing.h"
#include "lorica/lora/pool.h"
#include "lorica/lora/registry.h"
#include "lorica/lora/weight_table.h"

namespace lorica::lora {

class AdapterCache {
 public:
  struct Options {
    SiteSpace sites;
    int64_t arena_bytes = 0;
    int32_t slots = 0;
    int64_t largest_tile_bytes = 0;
    const TilePacker* packer = nullptr;  // the backend's; must outlive the cache
    MemoryLedger* ledger = nullptr;
  };
  static Result<std::unique_ptr<AdapterCache>> Create(const Options& options);

  // Packs the adapter into tiles and gives it a slot, or says with both figures why it does not
  // fit. An adapter of equal digest that is hot already shares its slot.
  Result<SlotId> MakeResident(const Adapter& adapter);
  // Returns the adapter's tiles and its slot. No step may be using it.
  void Evict(const std::string& digest);
  std::optional<SlotId> FindSlot(const std::string& digest) const;
  // Bytes in tiles that `adapter` needs.
  int64_t TileBytes(const Adapter& adapter) const;

  // Between steps only.
  void Compact();

  const WeightTable& table() const { return table_; }
  const Pool& pool() const { return *pool_; }
  Status CheckIntegrity() const;

 private:
  AdapterCache(const Options& options, std::unique_ptr<Pool> pool);

  Options options_;
  mutable std::mutex mutex_;
  std::unique_ptr<Pool> pool_;
  WeightTable table_;
  std::unordered_map<std::string, SlotId> slot_by_digest_;
  std::vector<SlotId> free_slots_;
};

}  // namespace lorica::lora
