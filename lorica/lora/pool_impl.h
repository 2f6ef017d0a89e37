// The books of a Pool, shared by pool.cc (which keeps them) and pool_audit.cc (which checks them).
// Serialised as Pool is; nothing else includes this.
#pragma once

#include <array>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lorica/lora/pool.h"

namespace lorica::lora {

struct Pool::Impl {
  static constexpr uint32_t kNone = UINT32_MAX;
  // Partly filled chunks of a size lie in lists by how full they are, in eighths: taking from the
  // fullest list is "fullest first" at constant cost.
  static constexpr int kFullnessLists = 8;

  struct Tile {
    uint32_t chunk = kNone;  // kNone: the id is free
    uint32_t place = 0;      // in the chunk
    uint64_t owner = 0;
  };
  struct Chunk {
    uint32_t size_class = kNone;   // kNone: free
    std::vector<uint32_t> tiles;   // id by place, kNone where free
    std::vector<uint32_t> vacant;  // places, the last one is taken next
    uint32_t list = kNone;         // fullness list it is in; kNone: full or free
    uint32_t previous = kNone;
    uint32_t next = kNone;

    uint32_t used() const { return static_cast<uint32_t>(tiles.size() - vacant.size()); }
  };
  // One tile size. Few (site shapes by types), so they are searched in a row.
  struct SizeClass {
    int64_t tile_bytes = 0;
    int64_t free_tiles = 0;  // in partly filled chunks
    int64_t used_tiles = 0;
    int64_t chunks = 0;
    std::array<uint32_t, kFullnessLists> heads;
  };

  Buffer arena;
  int64_t chunk_bytes = 0;
  std::vector<Chunk> chunks;
  std::vector<uint32_t> free_chunks;
  std::vector<SizeClass> classes;
  std::vector<Tile> tiles;  // by TileHandle::id
  std::vector<uint32_t> free_ids;
  std::unordered_map<uint64_t, std::vector<uint32_t>> owners;
  int64_t used_bytes = 0;

  std::byte* AddressOf(const Tile& tile) {
    return arena.data() + static_cast<int64_t>(tile.chunk) * chunk_bytes +
           static_cast<int64_t>(tile.place) * classes[chunks[tile.chunk].size_class].tile_bytes;
  }
  // kNone if no tile of that size was ever asked for.
  uint32_t FindClass(int64_t tile_bytes) const;
  uint32_t ClassOf(int64_t tile_bytes);
  static uint32_t FullnessList(const Chunk& chunk) {
    return static_cast<uint32_t>(static_cast<uint64_t>(chunk.used()) * kFullnessLists /
                                 chunk.tiles.size());
  }

  void Unlink(uint32_t chunk);
  // Into the list that its fullness asks for, or none if it is full; frees it if it is empty.
  void Relink(uint32_t chunk);
  uint32_t OpenChunk(uint32_t size_class);
  // Of this class, the fullest that has room; opens a free one if none has.
  uint32_t ChunkToFill(uint32_t size_class);
  void Put(uint32_t tile_id, uint32_t chunk);
  void Take(uint32_t tile_id);
  uint32_t NewTileId();
};

}  // namespace lorica::lora
