#include "lorica/lora/weight_table.h"

#include <algorithm>
#include <string>
#include <utility>

namespace lorica::lora {
namespace {

constexpr CallKind kLayerCalls[] = {CallKind::kQkv, CallKind::kO, CallKind::kGateUp,
                                    CallKind::kDown};

}  // namespace

WeightTable::WeightTable(SiteSpace sites, int32_t slots)
    : sites_(sites), slots_(static_cast<size_t>(slots)), classes_(1) {
  for (Slot& slot : slots_) {
    slot.entries.resize(static_cast<size_t>(sites.count()));
    slot.classes.assign(static_cast<size_t>(sites.layers * kCallKinds + 1), 0);
  }
}

template <typename Visitor>
void WeightTable::ForEachCall(const Visitor& visit) const {
  for (int32_t layer = 0; layer < sites_.layers; ++layer) {
    for (CallKind call : kLayerCalls) {
      visit(ClassIndex(layer, call), sites_.SitesOf(call, layer));
    }
  }
  visit(ClassIndex(0, CallKind::kHead), sites_.SitesOf(CallKind::kHead, 0));
}

WeightTable::ClassKey WeightTable::KeyOf(const Slot& slot, const CallSiteIds& ids) const {
  ClassKey key;
  bool any = false;
  for (int32_t i = 0; i < ids.count; ++i) {
    const SiteId site = ids.site[static_cast<size_t>(i)];
    const std::span<const TileRef> tiles = slot.entries[static_cast<size_t>(site.index)].tiles;
    any = any || !tiles.empty();
    key.push_back(static_cast<uint32_t>(tiles.size()));
    for (const TileRef& tile : tiles) key.push_back(static_cast<uint32_t>(tile.dtype));
  }
  if (!any) key.clear();
  return key;
}

uint32_t WeightTable::Intern(const ClassKey& key) {
  if (key.empty()) return 0;
  const auto [found, is_new] = class_by_key_.try_emplace(key, 0);
  if (is_new) {
    if (free_classes_.empty()) {
      found->second = static_cast<uint32_t>(classes_.size());
      classes_.emplace_back();
    } else {
      found->second = free_classes_.back();
      free_classes_.pop_back();
    }
    classes_[found->second].key = key;
  }
  ++classes_[found->second].users;
  return found->second;
}

void WeightTable::Release(uint32_t call_class) {
  if (call_class == 0) return;
  CallClassInfo& info = classes_[call_class];
  if (--info.users > 0) return;
  class_by_key_.erase(info.key);
  info.key.clear();
  free_classes_.push_back(call_class);
}

void WeightTable::Install(SlotId slot_id, const std::vector<SiteTiles>& sites) {
  LORICA_CHECK(slot_id.index >= 0 && slot_id.index < slots());
  Clear(slot_id);
  Slot& slot = slots_[static_cast<size_t>(slot_id.index)];
  // All tiles before any span: the vector must not move under them.
  for (size_t i = 0; i < sites.size(); ++i) {
    LORICA_CHECK(sites[i].site.index >= 0 && sites[i].site.index < sites_.count());
    LORICA_CHECK(i == 0 || sites[i - 1].site < sites[i].site);
    slot.tiles.insert(slot.tiles.end(), sites[i].tiles.begin(), sites[i].tiles.end());
  }
  size_t begin = 0;
  for (const SiteTiles& site : sites) {
    slot.entries[static_cast<size_t>(site.site.index)].tiles = {slot.tiles.data() + begin,
                                                                site.tiles.size()};
    begin += site.tiles.size();
  }
  for (size_t i = 0; i < slot.tiles.size(); ++i) {
    places_[slot.tiles[i].handle.id].push_back({slot_id.index, static_cast<int32_t>(i)});
  }
  ForEachCall([&](size_t index, const CallSiteIds& ids) {
    slot.classes[index] = Intern(KeyOf(slot, ids));
  });
}

void WeightTable::Clear(SlotId slot_id) {
  LORICA_CHECK(slot_id.index >= 0 && slot_id.index < slots());
  Slot& slot = slots_[static_cast<size_t>(slot_id.index)];
  for (uint32_t& call_class : slot.classes) Release(std::exchange(call_class, 0));
  for (const TileRef& tile : slot.tiles) {
    const auto found = places_.find(tile.handle.id);
    if (found == places_.end()) continue;  // named twice by this slot and gone already
    std::erase_if(found->second,
                  [&](const TilePlace& place) { return place.slot == slot_id.index; });
    if (found->second.empty()) places_.erase(found);
  }
  slot.tiles.clear();
  std::fill(slot.entries.begin(), slot.entries.end(), SiteEntry());
  slot.extras = SlotExtras();
}

void WeightTable::Readdress(TileHandle tile, const std::byte* address) {
  const auto found = places_.find(tile.id);
  if (found == places_.end()) return;
  for (const TilePlace& place : found->second) {
    slots_[static_cast<size_t>(place.slot)].tiles[static_cast<size_t>(place.tile)].address =
        address;
  }
}

Status WeightTable::CheckIntegrity() const {
  std::vector<int64_t> users(classes_.size(), 0);
  size_t tiles = 0;
  for (size_t s = 0; s < slots_.size(); ++s) {
    const Slot& slot = slots_[s];
    const std::string where = "weight table: slot " + std::to_string(s);
    const TileRef* next = slot.tiles.data();
    for (const SiteEntry& entry : slot.entries) {
      if (entry.tiles.empty()) continue;
      if (entry.tiles.data() != next) return Internal(where + " has a span out of place");
      next += entry.tiles.size();
    }
    if (next != slot.tiles.data() + slot.tiles.size()) {
      return Internal(where + " has tiles outside its spans");
    }
    bool classed = true;
    ForEachCall([&](size_t index, const CallSiteIds& ids) {
      const uint32_t call_class = slot.classes[index];
      ++users[call_class];
      classed = classed && classes_[call_class].key == KeyOf(slot, ids);
    });
    if (!classed) return Internal(where + " has a class that does not describe its tiles");
    for (size_t i = 0; i < slot.tiles.size(); ++i) {
      const auto found = places_.find(slot.tiles[i].handle.id);
      const bool named =
          found != places_.end() &&
          std::any_of(found->second.begin(), found->second.end(), [&](const TilePlace& place) {
            return place.slot == static_cast<int32_t>(s) && place.tile == static_cast<int32_t>(i);
          });
      if (!named) return Internal(where + " has a tile that its handle does not lead to");
    }
    tiles += slot.tiles.size();
  }
  for (size_t c = 1; c < classes_.size(); ++c) {
    if (users[c] != classes_[c].users) {
      return Internal("weight table: class " + std::to_string(c) + " counts " +
                      std::to_string(classes_[c].users) + " users, found " +
                      std::to_string(users[c]));
    }
  }
  size_t places = 0;
  for (const auto& [id, list] : places_) places += list.size();
  if (places != tiles) {
    return Internal("weight table: handles lead to " + std::to_string(places) + " tiles of " +
                    std::to_string(tiles));
  }
  if (class_by_key_.size() + free_classes_.size() + 1 != classes_.size()) {
    return Internal("weight table: a class is neither in use nor free");
  }
  return OkStatus();
}

}  // namespace lorica::lora
