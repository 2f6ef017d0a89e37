// WeightTable: for each slot and site, what a kernel needs, found by index alone. Only this table
// holds addresses of tiles. Owned by AdapterCache, whose lock serialises Install, Clear and
// Readdress. Kernels read it during a step without the lock: a slot that no step uses may be
// installed or cleared meanwhile, a slot in use and Readdress only between steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "lorica/base/dtype.h"
#include "lorica/base/status.h"
#include "lorica/lora/packing.h"
#include "lorica/lora/pool.h"
#include "lorica/lora/site.h"
#include "lorica/lora/token_map.h"

namespace lorica::lora {

// One rank tile as a kernel reads it. Each has its own scale, so that a request that mixes several
// adapters by weight is one more slot whose spans name the tiles of its members.
struct TileRef {
  const std::byte* address = nullptr;
  float scale = 1.0f;  // multiplies S in fp32
  DType dtype = DType::kBF16;
  TileHandle handle;
};

// One slot at one site. Null pointers: the variant has no such part (all but `tiles` are seams;
// the loader refuses adapters that need them until they are served).
struct SiteEntry {
  std::span<const TileRef> tiles;
  const float* column_factor = nullptr;           // [N], DoRA: m / n
  const float* replacement_bias = nullptr;        // [N], in place of the base's bias
  const float* lora_bias = nullptr;               // [N], already scaled
  const std::byte* replacement_weight = nullptr;  // in the backend's panels, in place of W
};

// What a slot has beside its sites.
struct SlotExtras {
  std::vector<const float*> norm_vectors;  // by norm, null where the base's holds
  std::vector<int32_t> embedding_tokens;   // ascending token ids whose rows are replaced
  const float* embedding_rows = nullptr;   // [embedding_tokens.size(), D]
  const float* head_rows = nullptr;        // [embedding_tokens.size(), D]
};

class WeightTable {
 public:
  // For `sites` sites and at most `slots` slots.
  WeightTable(SiteSpace sites, int32_t slots);
  WeightTable(const WeightTable&) = delete;
  WeightTable& operator=(const WeightTable&) = delete;

  SiteSpace sites() const { return sites_; }
  int32_t slots() const { return static_cast<int32_t>(slots_.size()); }

  // The tiles of one slot: for each site that the adapter acts on, ascending, its tiles in rank
  // order. Replaces what the slot held.
  struct SiteTiles {
    SiteId site;
    std::vector<TileRef> tiles;
  };
  void Install(SlotId slot, const std::vector<SiteTiles>& sites);
  void Clear(SlotId slot);
  // After Pool::Compact: every tile with this handle now lies at `address`.
  void Readdress(TileHandle tile, const std::byte* address);

  const SiteEntry& Entry(SlotId slot, SiteId site) const {
    return slots_[static_cast<size_t>(slot.index)].entries[static_cast<size_t>(site.index)];
  }
  int32_t TileCountAt(SlotId slot, SiteId site) const {
    return static_cast<int32_t>(Entry(slot, site).tiles.size());
  }
  // Equal classes have equal tile counts and types at every site of the call (`CallKind` of a
  // layer): what a plan's signature is made of. Classed at Install, so that planning compares one
  // integer. Class 0: the slot has no tile at any site of that call. `layer` is ignored for kHead.
  // A class number means the same for as long as any slot has it.
  uint32_t CallClass(SlotId slot, int32_t layer, CallKind call) const {
    return slots_[static_cast<size_t>(slot.index)].classes[ClassIndex(layer, call)];
  }
  const SlotExtras& Extras(SlotId slot) const {
    return slots_[static_cast<size_t>(slot.index)].extras;
  }

  // Spans, classes and the index of handles agree with the tiles, or the sentence that says where
  // not.
  Status CheckIntegrity() const;

 private:
  struct Slot {
    std::vector<TileRef> tiles;      // all sites, ascending
    std::vector<SiteEntry> entries;  // [sites]
    std::vector<uint32_t> classes;   // [layers * kCallKinds + 1], the head's last
    SlotExtras extras;
  };
  // Tile counts and types at the sites of a call.
  using ClassKey = std::vector<uint32_t>;
  struct CallClassInfo {
    ClassKey key;
    int64_t users = 0;  // (slot, call) pairs of this class; at 0 the number is given anew
  };
  // Where a tile is named.
  struct TilePlace {
    int32_t slot = 0;
    int32_t tile = 0;  // in Slot::tiles
  };

  size_t ClassIndex(int32_t layer, CallKind call) const {
    const int32_t row = call == CallKind::kHead ? sites_.layers : layer;
    const int32_t column = call == CallKind::kHead ? 0 : static_cast<int32_t>(call);
    return static_cast<size_t>(row * kCallKinds + column);
  }
  template <typename Visitor>
  void ForEachCall(const Visitor& visit) const;
  ClassKey KeyOf(const Slot& slot, const CallSiteIds& ids) const;
  uint32_t Intern(const ClassKey& key);
  void Release(uint32_t call_class);

  SiteSpace sites_;
  std::vector<Slot> slots_;
  std::map<ClassKey, uint32_t> class_by_key_;
  std::vector<CallClassInfo> classes_;  // by class number
  std::vector<uint32_t> free_classes_;
  std::unordered_map<uint32_t, std::vector<TilePlace>> places_;  // by TileHandle::id
};

}  // namespace lorica::lora
