// Packing: how a backend wants an adapter's factors cut. Each site's A and B are cut along the
// rank into tiles of the backend's width, the last one zero-padded, and laid out once, at load, as
// that backend's kernel reads them. The backend implements TilePacker; the pool and the table
// handle its tiles as bytes. Any thread may call a TilePacker.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lorica/base/status.h"
#include "lorica/lora/adapter.h"

namespace lorica::lora {

// The shape that decides a tile's bytes; also what planning sees of it.
struct TileShape {
  int64_t k = 0;
  int64_t n = 0;
  DType dtype = DType::kBF16;  // of both factors: the wider of A's and B's
  bool operator==(const TileShape&) const = default;
};

class TilePacker {
 public:
  virtual ~TilePacker() = default;

  // Ranks a tile: 8 on a CPU, 16 on a matrix unit.
  virtual int32_t rank_quantum() const = 0;
  // Bytes of one tile, A's part and B's part together; a multiple of kBufferAlignment.
  virtual int64_t TileBytes(const TileShape& shape) const = 0;
  // Packs ranks [rank_begin, rank_begin + rank_quantum) of `factors` into `tile` (TileBytes of
  // it), zero beyond factors.rank. The scale is not folded in.
  virtual void PackTile(const SiteFactors& factors, int32_t rank_begin, std::byte* tile) const = 0;
  // Whether the backend can hold `factors`, or why not; what it refuses is never packed.
  virtual Status Accepts(const SiteFactors&) const { return OkStatus(); }
};

inline int32_t TileCount(int32_t rank, int32_t rank_quantum) {
  return (rank + rank_quantum - 1) / rank_quantum;
}
// The type that holds both factors of a site exactly: equal types stay, unequal ones meet in f32.
inline DType TileDType(const SiteFactors& factors) {
  return factors.a.dtype == factors.b.dtype ? factors.a.dtype : DType::kF32;
}
inline TileShape TileShapeOf(const SiteFactors& factors) {
  return {factors.shape.k, factors.shape.n, TileDType(factors)};
}

}  // namespace lorica::lora
