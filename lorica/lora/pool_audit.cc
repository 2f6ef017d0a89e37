#include <algorithm>

#include "lorica/lora/pool_impl.h"

namespace lorica::lora {
namespace {

Status Broken(const std::string& what) { return Internal("pool: " + what); }

}  // namespace

Status Pool::CheckIntegrity() const {
  const Impl& pool = *impl_;
  const auto none = Impl::kNone;

  std::vector<Impl::SizeClass> found(pool.classes.size());
  std::vector<bool> is_free(pool.chunks.size(), false);
  for (uint32_t index : pool.free_chunks) {
    if (index >= pool.chunks.size() || is_free[index]) {
      return Broken("a free chunk is listed twice or does not exist");
    }
    is_free[index] = true;
  }
  size_t placed = 0;
  for (size_t index = 0; index < pool.chunks.size(); ++index) {
    const Impl::Chunk& chunk = pool.chunks[index];
    const std::string name = "chunk " + std::to_string(index);
    if (is_free[index] != (chunk.size_class == none)) {
      return Broken(name + " is in use and free, or neither");
    }
    if (is_free[index]) {
      if (!chunk.tiles.empty() || !chunk.vacant.empty() || chunk.list != none) {
        return Broken(name + " is free and holds something");
      }
      continue;
    }
    const Impl::SizeClass& size_class = pool.classes[chunk.size_class];
    if (static_cast<int64_t>(chunk.tiles.size()) != TilesPerChunk(size_class.tile_bytes)) {
      return Broken(name + " has another number of places than its size asks for");
    }
    std::vector<bool> vacant(chunk.tiles.size(), false);
    for (uint32_t place : chunk.vacant) {
      if (place >= vacant.size() || vacant[place]) return Broken(name + " lists a place twice");
      vacant[place] = true;
    }
    for (size_t place = 0; place < chunk.tiles.size(); ++place) {
      const uint32_t id = chunk.tiles[place];
      if (vacant[place] != (id == none)) return Broken(name + " has a place vacant and taken");
      if (id == none) continue;
      if (id >= pool.tiles.size() || pool.tiles[id].chunk != index ||
          pool.tiles[id].place != place) {
        return Broken(name + " holds tile " + std::to_string(id) + ", which lies elsewhere");
      }
      ++placed;
    }
    if (chunk.used() == 0) return Broken(name + " is empty and was not given back");
    const uint32_t list = chunk.vacant.empty() ? none : Impl::FullnessList(chunk);
    if (chunk.list != list) return Broken(name + " is in the wrong list of fullness");
    Impl::SizeClass& sums = found[chunk.size_class];
    ++sums.chunks;
    sums.free_tiles += static_cast<int64_t>(chunk.vacant.size());
    sums.used_tiles += static_cast<int64_t>(chunk.used());
  }

  int64_t used_bytes = 0;
  for (size_t c = 0; c < pool.classes.size(); ++c) {
    const Impl::SizeClass& size_class = pool.classes[c];
    const std::string name = "size " + std::to_string(size_class.tile_bytes);
    if (size_class.chunks != found[c].chunks || size_class.free_tiles != found[c].free_tiles ||
        size_class.used_tiles != found[c].used_tiles) {
      return Broken(name + " counts other tiles than its chunks hold");
    }
    used_bytes += size_class.used_tiles * size_class.tile_bytes;
    int64_t listed_free = 0;
    for (uint32_t list = 0; list < Impl::kFullnessLists; ++list) {
      uint32_t previous = none;
      for (uint32_t i = size_class.heads[list]; i != none; i = pool.chunks[i].next) {
        const Impl::Chunk& chunk = pool.chunks[i];
        if (chunk.list != list || chunk.size_class != c || chunk.previous != previous) {
          return Broken(name + " has a list that leads astray");
        }
        listed_free += static_cast<int64_t>(chunk.vacant.size());
        previous = i;
      }
    }
    if (listed_free != size_class.free_tiles) return Broken(name + " has chunks in no list");
  }
  if (used_bytes != pool.used_bytes) return Broken("used bytes do not add up");

  size_t owned = 0;
  std::vector<bool> seen(pool.tiles.size(), false);
  for (const auto& [owner, ids] : pool.owners) {
    if (ids.empty()) return Broken("owner " + std::to_string(owner) + " holds nothing");
    for (uint32_t id : ids) {
      if (id >= pool.tiles.size() || seen[id] || pool.tiles[id].chunk == none ||
          pool.tiles[id].owner != owner) {
        return Broken("tile " + std::to_string(id) + " of owner " + std::to_string(owner) +
                      " is not its own");
      }
      seen[id] = true;
      ++owned;
    }
  }
  if (owned != placed) return Broken("a tile has a place and no owner");
  for (uint32_t id : pool.free_ids) {
    if (id >= pool.tiles.size() || seen[id]) return Broken("a tile's name is free and in use");
    seen[id] = true;
  }
  if (owned + pool.free_ids.size() != pool.tiles.size()) return Broken("a tile's name is lost");
  return OkStatus();
}

std::string Pool::Describe() const {
  std::string text = std::to_string(used_bytes()) + " of " + std::to_string(arena_bytes()) +
                     " bytes in tiles, " + std::to_string(free_chunks()) + " chunks of " +
                     std::to_string(chunk_bytes()) + " bytes free\n";
  for (const Impl::SizeClass& size_class : impl_->classes) {
    text += "tiles of " + std::to_string(size_class.tile_bytes) +
            " bytes: " + std::to_string(size_class.used_tiles) + " used, " +
            std::to_string(size_class.free_tiles) + " free in " +
            std::to_string(size_class.chunks) + " chunks\n";
  }
  std::vector<uint64_t> owners;
  for (const auto& [owner, ids] : impl_->owners) owners.push_back(owner);
  std::sort(owners.begin(), owners.end());
  for (uint64_t owner : owners) {
    int64_t bytes = 0;
    const std::vector<uint32_t>& ids = impl_->owners.at(owner);
    for (uint32_t id : ids) {
      bytes += impl_->classes[impl_->chunks[impl_->tiles[id].chunk].size_class].tile_bytes;
    }
    text += "owner " + std::to_string(owner) + ": " + std::to_string(ids.size()) + " tiles, " +
            std::to_string(bytes) + " bytes\n";
  }
  return text;
}

}  // namespace lorica::lora
