#include "lorica/lora/pool.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lorica/lora/pool_impl.h"

namespace lorica::lora {
namespace {

constexpr int64_t kFewestTiles = 8;   // of the largest size in a chunk
constexpr int64_t kFewestChunks = 8;  // in an arena that has room for so many
constexpr int64_t kTypicalSizes = 4;  // tile sizes of one model and type

int64_t RoundDown(int64_t bytes) { return bytes / kBufferAlignment * kBufferAlignment; }

std::string Bytes(int64_t bytes) { return std::to_string(bytes) + " bytes"; }

}  // namespace

uint32_t Pool::Impl::FindClass(int64_t tile_bytes) const {
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i].tile_bytes == tile_bytes) return static_cast<uint32_t>(i);
  }
  return kNone;
}

uint32_t Pool::Impl::ClassOf(int64_t tile_bytes) {
  const uint32_t found = FindClass(tile_bytes);
  if (found != kNone) return found;
  SizeClass added;
  added.tile_bytes = tile_bytes;
  added.heads.fill(kNone);
  classes.push_back(added);
  return static_cast<uint32_t>(classes.size() - 1);
}

void Pool::Impl::Unlink(uint32_t index) {
  Chunk& chunk = chunks[index];
  if (chunk.list == kNone) return;
  if (chunk.previous != kNone) {
    chunks[chunk.previous].next = chunk.next;
  } else {
    classes[chunk.size_class].heads[chunk.list] = chunk.next;
  }
  if (chunk.next != kNone) chunks[chunk.next].previous = chunk.previous;
  chunk.list = chunk.previous = chunk.next = kNone;
}

void Pool::Impl::Relink(uint32_t index) {
  Chunk& chunk = chunks[index];
  SizeClass& size_class = classes[chunk.size_class];
  if (chunk.used() == 0) {
    Unlink(index);
    size_class.free_tiles -= static_cast<int64_t>(chunk.tiles.size());
    --size_class.chunks;
    chunk.size_class = kNone;
    chunk.tiles.clear();
    chunk.vacant.clear();
    free_chunks.push_back(index);
    return;
  }
  const uint32_t list = chunk.vacant.empty() ? kNone : FullnessList(chunk);
  if (list == chunk.list) return;
  Unlink(index);
  if (list == kNone) return;
  chunk.list = list;
  chunk.next = size_class.heads[list];
  if (chunk.next != kNone) chunks[chunk.next].previous = index;
  size_class.heads[list] = index;
}

uint32_t Pool::Impl::OpenChunk(uint32_t class_index) {
  LORICA_CHECK(!free_chunks.empty());
  const uint32_t index = free_chunks.back();
  free_chunks.pop_back();
  Chunk& chunk = chunks[index];
  SizeClass& size_class = classes[class_index];
  chunk.size_class = class_index;
  const auto places = static_cast<size_t>(chunk_bytes / size_class.tile_bytes);
  chunk.tiles.assign(places, kNone);
  for (size_t place = places; place > 0; --place) {
    chunk.vacant.push_back(static_cast<uint32_t>(place - 1));
  }
  size_class.free_tiles += static_cast<int64_t>(places);
  ++size_class.chunks;
  return index;
}

uint32_t Pool::Impl::ChunkToFill(uint32_t class_index) {
  const auto& heads = classes[class_index].heads;
  for (size_t list = kFullnessLists; list > 0; --list) {
    if (heads[list - 1] != kNone) return heads[list - 1];
  }
  return OpenChunk(class_index);
}

void Pool::Impl::Put(uint32_t tile_id, uint32_t index) {
  Chunk& chunk = chunks[index];
  SizeClass& size_class = classes[chunk.size_class];
  Tile& tile = tiles[tile_id];
  tile.chunk = index;
  tile.place = chunk.vacant.back();
  chunk.vacant.pop_back();
  chunk.tiles[tile.place] = tile_id;
  --size_class.free_tiles;
  ++size_class.used_tiles;
  used_bytes += size_class.tile_bytes;
  Relink(index);
}

void Pool::Impl::Take(uint32_t tile_id) {
  Tile& tile = tiles[tile_id];
  Chunk& chunk = chunks[tile.chunk];
  SizeClass& size_class = classes[chunk.size_class];
  chunk.tiles[tile.place] = kNone;
  chunk.vacant.push_back(tile.place);
  ++size_class.free_tiles;
  --size_class.used_tiles;
  used_bytes -= size_class.tile_bytes;
  Relink(tile.chunk);
  tile.chunk = kNone;
}

uint32_t Pool::Impl::NewTileId() {
  if (free_ids.empty()) {
    tiles.emplace_back();
    return static_cast<uint32_t>(tiles.size() - 1);
  }
  const uint32_t id = free_ids.back();
  free_ids.pop_back();
  return id;
}

Pool::Pool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pool::~Pool() = default;

int64_t Pool::ChunkBytes(int64_t arena_bytes, int64_t largest_tile_bytes) {
  const auto balanced = static_cast<int64_t>(
      std::sqrt(static_cast<double>(largest_tile_bytes) * static_cast<double>(arena_bytes) /
                static_cast<double>(kTypicalSizes)));
  const int64_t wanted = std::max(balanced, kFewestTiles * largest_tile_bytes);
  const int64_t affordable = std::max(largest_tile_bytes, arena_bytes / kFewestChunks);
  return RoundDown(std::min(wanted, affordable));
}

Result<std::unique_ptr<Pool>> Pool::Create(const Options& options) {
  const int64_t largest = options.largest_tile_bytes;
  LORICA_CHECK(largest > 0 && largest % kBufferAlignment == 0);
  // One too small for the largest tile is a chunk for such adapters as have small ones alone.
  const int64_t arena_bytes = std::max(options.arena_bytes, kBufferAlignment);
  const bool tiny = arena_bytes < largest;
  const int64_t chunk_bytes = tiny                      ? RoundDown(arena_bytes)
                              : options.chunk_bytes > 0 ? RoundDown(options.chunk_bytes)
                                                        : ChunkBytes(arena_bytes, largest);
  const int64_t count = chunk_bytes > 0 ? arena_bytes / chunk_bytes : 0;
  if ((chunk_bytes < largest && !tiny) || count < 1 || count >= Impl::kNone) {
    return InvalidArgument("chunks of " + Bytes(chunk_bytes) + " do not cut an arena of " +
                           Bytes(arena_bytes) + " for rank tiles of " + Bytes(largest));
  }
  auto impl = std::make_unique<Impl>();
  LORICA_ASSIGN_OR_RETURN(
      impl->arena, Buffer::Allocate(count * chunk_bytes, MemoryTag::kAdapterArena, options.ledger));
  impl->chunk_bytes = chunk_bytes;
  impl->chunks.resize(static_cast<size_t>(count));
  for (int64_t i = count; i > 0; --i) impl->free_chunks.push_back(static_cast<uint32_t>(i - 1));
  return std::unique_ptr<Pool>(new Pool(std::move(impl)));
}

Result<std::vector<TileHandle>> Pool::Allocate(OwnerId owner,
                                               std::span<const TileRequest> requests) {
  // First what is missing, by size, so that nothing is undone when it does not fit.
  std::vector<int64_t> wanted;
  std::vector<uint32_t> class_of;
  int64_t bytes = 0;
  size_t count = 0;
  for (const TileRequest& request : requests) {
    LORICA_CHECK(request.count >= 0 && request.tile_bytes > 0 &&
                 request.tile_bytes % kBufferAlignment == 0);
    if (request.tile_bytes > impl_->chunk_bytes) {
      return ResourceExhausted("a rank tile of " + Bytes(request.tile_bytes) +
                               " does not fit a chunk of " + Bytes(impl_->chunk_bytes));
    }
    const uint32_t size_class = impl_->ClassOf(request.tile_bytes);
    wanted.resize(impl_->classes.size());
    wanted[size_class] += request.count;
    class_of.push_back(size_class);
    bytes += request.tile_bytes * request.count;
    count += static_cast<size_t>(request.count);
  }
  int64_t chunks = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Impl::SizeClass& size_class = impl_->classes[i];
    const int64_t missing = std::max<int64_t>(0, wanted[i] - size_class.free_tiles);
    const int64_t places = TilesPerChunk(size_class.tile_bytes);
    chunks += (missing + places - 1) / places;
  }
  if (chunks > free_chunks()) {
    return ResourceExhausted("rank tiles of " + Bytes(bytes) + " need " + std::to_string(chunks) +
                             " chunks of " + Bytes(chunk_bytes()) + ", the arena of " +
                             Bytes(arena_bytes()) + " has " + std::to_string(free_chunks()) +
                             " free (" + Bytes(free_bytes()) + " free in all)");
  }

  std::vector<TileHandle> handles;
  handles.reserve(count);
  std::vector<uint32_t>& held = impl_->owners[owner.value];
  for (size_t i = 0; i < requests.size(); ++i) {
    for (int32_t j = 0; j < requests[i].count; ++j) {
      const uint32_t id = impl_->NewTileId();
      impl_->Put(id, impl_->ChunkToFill(class_of[i]));
      impl_->tiles[id].owner = owner.value;
      held.push_back(id);
      handles.push_back({id});
    }
  }
  if (held.empty()) impl_->owners.erase(owner.value);
  return handles;
}

void Pool::Free(OwnerId owner) {
  const auto found = impl_->owners.find(owner.value);
  if (found == impl_->owners.end()) return;
  for (uint32_t id : found->second) {
    impl_->Take(id);
    impl_->free_ids.push_back(id);
  }
  impl_->owners.erase(found);
}

std::byte* Pool::Address(TileHandle handle) {
  LORICA_CHECK(handle.id < impl_->tiles.size());
  const Impl::Tile& tile = impl_->tiles[handle.id];
  LORICA_CHECK(tile.chunk != Impl::kNone);
  return impl_->AddressOf(tile);
}

void Pool::Compact(const std::function<void(TileHandle tile, std::byte* address)>& moved) {
  for (size_t c = 0; c < impl_->classes.size(); ++c) {
    std::vector<uint32_t> partial;
    for (uint32_t head : impl_->classes[c].heads) {
      for (uint32_t i = head; i != Impl::kNone; i = impl_->chunks[i].next) partial.push_back(i);
    }
    // From the emptiest into the fullest: the fewest tiles move.
    std::sort(partial.begin(), partial.end(), [&](uint32_t a, uint32_t b) {
      const uint32_t used_a = impl_->chunks[a].used();
      const uint32_t used_b = impl_->chunks[b].used();
      return used_a != used_b ? used_a > used_b : a < b;
    });
    size_t to = 0;
    size_t from = partial.size();
    while (to + 1 < from) {
      const Impl::Chunk& source = impl_->chunks[partial[from - 1]];
      if (impl_->chunks[partial[to]].vacant.empty()) {
        ++to;
        continue;
      }
      uint32_t id = Impl::kNone;
      for (size_t place = source.tiles.size(); id == Impl::kNone; --place) {
        id = source.tiles[place - 1];
      }
      const std::byte* old_address = impl_->AddressOf(impl_->tiles[id]);
      const bool last = source.used() == 1;
      impl_->Take(id);
      impl_->Put(id, partial[to]);
      std::byte* address = impl_->AddressOf(impl_->tiles[id]);
      std::memcpy(address, old_address, static_cast<size_t>(impl_->classes[c].tile_bytes));
      moved({id}, address);
      if (last) --from;
    }
  }
}

int64_t Pool::arena_bytes() const { return impl_->arena.bytes(); }
int64_t Pool::used_bytes() const { return impl_->used_bytes; }
int64_t Pool::chunk_bytes() const { return impl_->chunk_bytes; }
int64_t Pool::free_chunks() const { return static_cast<int64_t>(impl_->free_chunks.size()); }

int64_t Pool::free_bytes() const {
  int64_t bytes = free_chunks() * impl_->chunk_bytes;
  for (const Impl::SizeClass& size_class : impl_->classes) {
    bytes += size_class.free_tiles * size_class.tile_bytes;
  }
  return bytes;
}

int64_t Pool::FreeTiles(int64_t tile_bytes) const {
  const uint32_t found = impl_->FindClass(tile_bytes);
  return found == Impl::kNone ? 0 : impl_->classes[found].free_tiles;
}

int64_t Pool::ArenaBytesFor(std::span<const TileRequest> requests) const {
  int64_t bytes = 0;
  for (const TileRequest& request : requests) {
    const int64_t places = TilesPerChunk(request.tile_bytes);
    if (places == 0) return INT64_MAX;
    bytes += (request.count * chunk_bytes() + places - 1) / places;
  }
  return bytes;
}

int64_t Pool::TilesOf(OwnerId owner) const {
  const auto found = impl_->owners.find(owner.value);
  return found == impl_->owners.end() ? 0 : static_cast<int64_t>(found->second.size());
}

}  // namespace lorica::lora
