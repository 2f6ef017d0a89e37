#include "lorica/lora/cache.h"

#include <algorithm>
#include <set>
#include <utility>

#include "lorica/base/thread_priority.h"

namespace lorica::lora {
namespace {

// Enough of a digest to tell adapters apart in a message.
std::string ShortDigest(const Adapter& adapter) { return adapter.digest().substr(0, 12); }

}  // namespace

AdapterCache::AdapterCache(const Options& options, std::unique_ptr<Pool> pool)
    : options_(options), pool_(std::move(pool)), table_(options.sites, options.slots) {
  for (int32_t slot = options.slots; slot > 0; --slot) free_slots_.push_back({slot - 1});
}

Result<std::unique_ptr<AdapterCache>> AdapterCache::Create(const Options& options) {
  LORICA_CHECK(options.packer != nullptr && options.slots > 0);
  Pool::Options pool_options;
  pool_options.arena_bytes = options.arena_bytes;
  pool_options.largest_tile_bytes = options.largest_tile_bytes;
  pool_options.ledger = options.ledger;
  LORICA_ASSIGN_OR_RETURN(std::unique_ptr<Pool> pool, Pool::Create(pool_options));
  return std::unique_ptr<AdapterCache>(new AdapterCache(options, std::move(pool)));
}

std::vector<TileRequest> AdapterCache::RequestsFor(const Adapter& adapter) const {
  std::vector<TileRequest> requests;
  requests.reserve(adapter.sites().size());
  for (const SiteFactors& factors : adapter.sites()) {
    requests.push_back({options_.packer->TileBytes(TileShapeOf(factors)),
                        TileCount(factors.rank, options_.packer->rank_quantum())});
  }
  return requests;
}

int64_t AdapterCache::TileBytes(const Adapter& adapter) const {
  int64_t bytes = 0;
  for (const TileRequest& request : RequestsFor(adapter)) {
    bytes += request.tile_bytes * request.count;
  }
  return bytes;
}

bool AdapterCache::FitsEmpty(const Adapter& adapter) const {
  const int64_t needed = std::max(TileBytes(adapter), pool_->ArenaBytesFor(RequestsFor(adapter)));
  return needed <= pool_->arena_bytes();
}

Status AdapterCache::CheckFits(const Adapter& adapter) const {
  std::lock_guard lock(mutex_);
  return FitsEmpty(adapter) ? OkStatus() : NoRoom(adapter, OkStatus());
}

bool AdapterCache::FitsCompacted(const Adapter& adapter) const {
  std::lock_guard lock(mutex_);
  const std::vector<TileRequest> requests = RequestsFor(adapter);
  std::set<int64_t> sizes;
  for (const TileRequest& request : requests) sizes.insert(request.tile_bytes);
  // Pool::ArenaBytesFor says how much more is free where a compacted pool surely has room.
  return !free_slots_.empty() &&
         pool_->free_bytes() > pool_->ArenaBytesFor(requests) +
                                   static_cast<int64_t>(sizes.size()) * pool_->chunk_bytes();
}

int64_t AdapterCache::used_bytes() const {
  std::lock_guard lock(mutex_);
  return pool_->used_bytes();
}

int64_t AdapterCache::free_bytes() const {
  std::lock_guard lock(mutex_);
  return pool_->free_bytes();
}

Status AdapterCache::NoRoom(const Adapter& adapter, const Status& reason) const {
  const std::string needs = "adapter " + ShortDigest(adapter) + " needs " +
                            std::to_string(TileBytes(adapter)) + " bytes in tiles, the arena of " +
                            std::to_string(pool_->arena_bytes()) + " bytes ";
  if (!FitsEmpty(adapter)) {
    return OutOfRange(needs + "does not hold it even when empty");
  }
  return ResourceExhausted(needs + "has " + std::to_string(pool_->free_bytes()) +
                           " free: " + reason.message());
}

// Named under the lock: addresses are the pool's to tell, and stay while packing_ is not 0.
std::vector<WeightTable::SiteTiles> AdapterCache::NameTiles(
    const Adapter& adapter, const std::vector<TileHandle>& handles) {
  std::vector<WeightTable::SiteTiles> sites;
  sites.reserve(adapter.sites().size());
  size_t next = 0;
  for (const SiteFactors& factors : adapter.sites()) {
    WeightTable::SiteTiles site{factors.site, {}};
    const int32_t count = TileCount(factors.rank, options_.packer->rank_quantum());
    for (int32_t i = 0; i < count; ++i) {
      const TileHandle handle = handles[next++];
      site.tiles.push_back(
          {pool_->Address(handle), static_cast<float>(factors.scale), TileDType(factors), handle});
    }
    sites.push_back(std::move(site));
  }
  return sites;
}

void AdapterCache::Pack(const Adapter& adapter, const std::vector<std::byte*>& addresses) const {
  size_t next = 0;
  const int32_t ranks = options_.packer->rank_quantum();
  for (const SiteFactors& factors : adapter.sites()) {
    for (int32_t rank = 0; rank < factors.rank; rank += ranks) {
      options_.packer->PackTile(factors, rank, addresses[next++]);
      GiveWay();
    }
  }
}

Result<SlotId> AdapterCache::MakeResident(const Adapter& adapter) {
  for (const SiteFactors& factors : adapter.sites()) {
    if (Status status = options_.packer->Accepts(factors); !status.ok()) {
      return status.WithContext("adapter " + ShortDigest(adapter) + ", " +
                                options_.sites.Name(factors.site));
    }
  }
  std::unique_lock lock(mutex_);
  const auto found = hot_.find(adapter.digest());
  if (found != hot_.end()) {
    ++found->second.users;
    // Rehashing moves no entry, and this user's count keeps it.
    Hot& hot = found->second;
    packed_.wait(lock, [&] { return hot.ready; });
    return hot.slot;
  }
  if (!FitsEmpty(adapter)) return NoRoom(adapter, OkStatus());
  if (free_slots_.empty()) {
    return ResourceExhausted("adapter " + ShortDigest(adapter) + " needs a slot, all " +
                             std::to_string(options_.slots) + " are taken");
  }
  const OwnerId owner{next_owner_++};
  Result<std::vector<TileHandle>> handles = pool_->Allocate(owner, RequestsFor(adapter));
  if (!handles.ok()) return NoRoom(adapter, handles.status());

  const SlotId slot = free_slots_.back();
  free_slots_.pop_back();
  Hot& hot = hot_[adapter.digest()];
  hot = {slot, owner, 1, false, {}, {}};
  for (const SiteFactors& factors : adapter.sites()) {
    hot.scales.emplace_back(factors.site, factors.scale);
  }
  const std::vector<WeightTable::SiteTiles> sites = NameTiles(adapter, handles.value());
  std::vector<std::byte*> addresses;
  addresses.reserve(handles->size());
  for (TileHandle handle : handles.value()) addresses.push_back(pool_->Address(handle));
  ++packing_;
  lock.unlock();

  Pack(adapter, addresses);

  lock.lock();
  --packing_;
  table_.Install(slot, sites);
  hot.ready = true;
  packed_.notify_all();
  return slot;
}

void AdapterCache::Evict(const std::string& digest) {
  std::lock_guard lock(mutex_);
  const auto found = hot_.find(digest);
  LORICA_CHECK(found != hot_.end() && found->second.users > 0);
  if (--found->second.users > 0) return;
  LORICA_CHECK(found->second.ready && found->second.weighted.empty());
  table_.Clear(found->second.slot);
  pool_->Free(found->second.owner);
  free_slots_.push_back(found->second.slot);
  hot_.erase(found);
}

Result<SlotId> AdapterCache::AddWeighted(const std::string& digest, double weight) {
  std::lock_guard lock(mutex_);
  const auto found = hot_.find(digest);
  LORICA_CHECK(found != hot_.end() && found->second.ready);
  if (free_slots_.empty()) {
    return ResourceExhausted("adapter " + digest.substr(0, 12) +
                             " with a weight needs a slot, all " + std::to_string(options_.slots) +
                             " are taken");
  }
  std::vector<WeightTable::SiteTiles> sites;
  for (const auto& [site, scale] : found->second.scales) {
    const std::span<const TileRef> tiles = table_.Entry(found->second.slot, site).tiles;
    sites.push_back({site, {tiles.begin(), tiles.end()}});
    // From the exact scale, so that it is rounded once.
    for (TileRef& tile : sites.back().tiles) tile.scale = static_cast<float>(scale * weight);
  }
  const SlotId slot = free_slots_.back();
  free_slots_.pop_back();
  found->second.weighted.push_back(slot);
  table_.Install(slot, sites);
  return slot;
}

void AdapterCache::RemoveWeighted(const std::string& digest, SlotId slot) {
  std::lock_guard lock(mutex_);
  const auto found = hot_.find(digest);
  LORICA_CHECK(found != hot_.end() && std::erase(found->second.weighted, slot) == 1);
  table_.Clear(slot);
  free_slots_.push_back(slot);
}

std::optional<SlotId> AdapterCache::FindSlot(const std::string& digest) const {
  std::lock_guard lock(mutex_);
  const auto found = hot_.find(digest);
  if (found == hot_.end() || !found->second.ready) return std::nullopt;
  return found->second.slot;
}

bool AdapterCache::Compact() {
  std::lock_guard lock(mutex_);
  if (packing_ > 0) return false;
  pool_->Compact([&](TileHandle tile, std::byte* address) { table_.Readdress(tile, address); });
  return true;
}

Status AdapterCache::CheckIntegrity() const {
  std::lock_guard lock(mutex_);
  LORICA_RETURN_IF_ERROR(pool_->CheckIntegrity());
  LORICA_RETURN_IF_ERROR(table_.CheckIntegrity());
  std::set<SlotId> slots(free_slots_.begin(), free_slots_.end());
  for (const auto& [digest, hot] : hot_) {
    const std::string name = "cache: adapter " + digest.substr(0, 12);
    if (hot.users < 1) return Internal(name + " is hot for nobody");
    if (!slots.insert(hot.slot).second) {
      return Internal(name + " has slot " + std::to_string(hot.slot.index) +
                      ", which is free or another's");
    }
    for (SlotId slot : hot.weighted) {
      if (!slots.insert(slot).second) return Internal(name + " has a weighted slot of another");
    }
    if (!hot.ready) continue;
    int64_t tiles = 0;
    for (int32_t site = 0; site < options_.sites.count(); ++site) {
      for (const TileRef& tile : table_.Entry(hot.slot, {site}).tiles) {
        ++tiles;
        if (tile.address != pool_->Address(tile.handle)) {
          return Internal(name + " has a tile whose address is not the pool's, at " +
                          options_.sites.Name({site}));
        }
      }
    }
    if (tiles != pool_->TilesOf(hot.owner)) {
      return Internal(name + " names " + std::to_string(tiles) + " tiles, the pool has " +
                      std::to_string(pool_->TilesOf(hot.owner)));
    }
  }
  if (slots.size() != static_cast<size_t>(options_.slots)) {
    return Internal("cache: " + std::to_string(slots.size()) + " slots are known of " +
                    std::to_string(options_.slots));
  }
  return OkStatus();
}

}  // namespace lorica::lora
