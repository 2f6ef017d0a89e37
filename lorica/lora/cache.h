// AdapterCache: which adapters are hot, in which slot. Owns pool and weight table. Who comes in and
// who goes is AdapterTiers' to say.
//
// Thread rule: any thread may call anything but table(), pool(), Compact and CheckIntegrity, which
// are the engine thread's (or a test's), between steps. MakeResident packs on the calling (loader)
// thread without the lock, which it takes only to allocate and to install, and gives way after each
// tile; a running step does not see the new slot.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

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

  // Packs the adapter into tiles and gives it a slot. An adapter of equal digest that is hot
  // already shares its slot, and each call asks for an Evict of its own. OUT_OF_RANGE if it is
  // larger than the arena, RESOURCE_EXHAUSTED if there is no room now (a Compact may help) or no
  // slot; both figures are in the message.
  Result<SlotId> MakeResident(const Adapter& adapter);
  // Undoes one MakeResident; the last one returns the tiles and the slot. No step may be using it.
  void Evict(const std::string& digest);
  std::optional<SlotId> FindSlot(const std::string& digest) const;
  // A further slot over the tiles of a hot adapter, with each scale times `weight`: what a request
  // that weights its adapter runs under. Packs nothing. RESOURCE_EXHAUSTED without a free slot.
  Result<SlotId> AddWeighted(const std::string& digest, double weight);
  // Gives a slot of AddWeighted back; before the Evict of its adapter.
  void RemoveWeighted(const std::string& digest, SlotId slot);

  // Bytes in tiles that `adapter` needs.
  int64_t TileBytes(const Adapter& adapter) const;
  // OUT_OF_RANGE with both figures for an adapter that the empty arena does not hold.
  Status CheckFits(const Adapter& adapter) const;
  // Whether a Compact would let `adapter` in though there is no room for it now.
  bool FitsCompacted(const Adapter& adapter) const;
  int64_t used_bytes() const;
  int64_t free_bytes() const;  // in all; there may still be no room for one tile size

  // Between steps only. Moves nothing and returns false while an adapter is being packed.
  bool Compact();

  const WeightTable& table() const { return table_; }
  const Pool& pool() const { return *pool_; }
  Status CheckIntegrity() const;

 private:
  struct Hot {
    SlotId slot;
    OwnerId owner;
    int32_t users = 0;                              // MakeResident less Evict
    bool ready = false;                             // false while its tiles are being packed
    std::vector<std::pair<SiteId, double>> scales;  // of its sites, exact
    std::vector<SlotId> weighted;
  };

  AdapterCache(const Options& options, std::unique_ptr<Pool> pool);

  std::vector<TileRequest> RequestsFor(const Adapter& adapter) const;
  // Why `adapter` cannot come in, with both figures; the pool's own answer is `reason`.
  Status NoRoom(const Adapter& adapter, const Status& reason) const;
  bool FitsEmpty(const Adapter& adapter) const;
  void Pack(const Adapter& adapter, const std::vector<std::byte*>& addresses) const;
  std::vector<WeightTable::SiteTiles> NameTiles(const Adapter& adapter,
                                                const std::vector<TileHandle>& handles);

  const Options options_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable packed_;
  std::unique_ptr<Pool> pool_;
  WeightTable table_;
  std::unordered_map<std::string, Hot> hot_;  // by digest
  std::vector<SlotId> free_slots_;            // the last one is given next
  uint64_t next_owner_ = 1;
  int32_t packing_ = 0;  // adapters whose tiles are written without the lock
};

}  // namespace lorica::lora
