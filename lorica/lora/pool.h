// Pool: rank tiles in one arena of a fixed byte budget, taken at start. The arena is cut into
// chunks; a chunk serves one tile size at a time and goes back to the arena when its last tile is
// freed. Any mix of ranks is a list of equal tiles, so there is no fragmentation between ranks.
// The cost of a call never grows with what is idle: free tiles and free chunks are lists.
//
// What it wastes: the tail of a chunk, less than one part in nine (a chunk holds at least 8 of the
// largest tile, so less than one tile of nine is left over), and until Compact() free tiles in
// chunks of other sizes. The fullest chunk is filled first, so that the emptiest run dry.
//
// Thread rule: all calls are serialised by the owner's lock (AdapterCache); tile bytes
// may be written by a loader while the engine reads other tiles. Compact() moves tiles and
// therefore runs between steps only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lorica/base/buffer.h"
#include "lorica/base/status.h"

namespace lorica::lora {

// Names an allocation of one adapter, so that the pool can say who holds what.
struct OwnerId {
  uint64_t value = 0;
  bool operator==(const OwnerId&) const = default;
};

// A tile's place. Stable in identity (`id`), not in address: see Compact().
struct TileHandle {
  uint32_t id = 0;
};

struct TileRequest {
  int64_t tile_bytes = 0;  // a multiple of kBufferAlignment
  int32_t count = 0;
};

class Pool {
 public:
  struct Options {
    int64_t arena_bytes = 0;
    int64_t chunk_bytes = 0;  // 0: ChunkBytes(arena_bytes, largest_tile_bytes)
    int64_t largest_tile_bytes = 0;
    MemoryLedger* ledger = nullptr;
  };
  // An arena smaller than the largest tile is one chunk. INVALID_ARGUMENT for chunks that do not
  // cut a larger one.
  static Result<std::unique_ptr<Pool>> Create(const Options& options);
  ~Pool();

  // At least 8 of the largest tile, more in a large arena: tails waste a share of largest / chunk,
  // a partly filled chunk for each of a few tile sizes wastes a share of chunk / arena, and the
  // geometric mean balances the two. Less than 8 only in an arena of less than 64.
  static int64_t ChunkBytes(int64_t arena_bytes, int64_t largest_tile_bytes);

  // All tiles of all requests, in order, or none: RESOURCE_EXHAUSTED with what was asked and what
  // is free. Succeeds whenever the tiles fit the free tiles of their sizes and whole free chunks.
  Result<std::vector<TileHandle>> Allocate(OwnerId owner, std::span<const TileRequest> requests);
  // Returns every tile of `owner`; chunks that became empty go back to the arena.
  void Free(OwnerId owner);

  std::byte* Address(TileHandle tile);

  // Moves tiles until at most one chunk a tile size is partly filled, and calls `moved` for each
  // tile whose address changed. Between steps only.
  void Compact(const std::function<void(TileHandle tile, std::byte* address)>& moved);

  int64_t arena_bytes() const;
  int64_t used_bytes() const;  // in tiles
  int64_t free_bytes() const;  // in free chunks and in free tiles of partly filled chunks
  int64_t free_chunks() const;
  int64_t chunk_bytes() const;
  int64_t FreeTiles(int64_t tile_bytes) const;  // in partly filled chunks of that size
  int64_t TilesPerChunk(int64_t tile_bytes) const { return chunk_bytes() / tile_bytes; }
  // Bytes of arena that `requests` take: tiles with their share of their chunks' tails, rounded
  // up. After Compact() an Allocate succeeds whenever free_bytes() exceeds this by one chunk for
  // each tile size in the pool or the requests.
  int64_t ArenaBytesFor(std::span<const TileRequest> requests) const;
  // Tiles that `owner` holds.
  int64_t TilesOf(OwnerId owner) const;

  // Every list, count and owner agrees with every other, or the sentence that says what does not.
  Status CheckIntegrity() const;
  // One line an owner and one a tile size, for people.
  std::string Describe() const;

 private:
  struct Impl;
  explicit Pool(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lorica::lora
