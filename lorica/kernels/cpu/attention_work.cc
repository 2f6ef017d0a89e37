#include "lorica/kernels/cpu/attention_work.h"

#include <algorithm>

namespace lorica::kernels::cpu {
namespace {

// To stream a position's K and V costs what this many queries cost that multiply them.
constexpr int64_t kQueriesToStream = 6;
// A decoding tile of this many blocks is shared out by blocks, a shorter one by queries: its
// borders would be too coarse.
constexpr int64_t kBlocksToShare = 4;

int64_t CostOf(const QueryTile& tile) {
  return tile.Length(tile.count() - 1) * (kQueriesToStream + tile.count());
}

}  // namespace

AttentionLine::AttentionLine(const AttentionParams& p, int32_t threads) : threads_(threads) {
  ForEachTile(p, [this](const QueryTile& tile) { total_ += CostOf(tile); });
}

TileShare AttentionLine::Next(const QueryTile& tile, int32_t thread) {
  const int64_t cost = CostOf(tile);
  const int64_t blocks = tile.Blocks();
  const bool by_block = tile.rows == 1 && blocks >= kBlocksToShare;
  const int64_t pieces = by_block ? blocks : tile.count();
  const auto cut = [&](int32_t border) {
    const int64_t into = std::clamp<int64_t>(Border(border) - done_, 0, cost);
    return (into * pieces + cost / 2) / cost;
  };
  const IndexRange mine{cut(thread), cut(thread + 1)};
  TileShare share{tile, {0, tile.count()}, {0, blocks}};
  if (by_block) {
    share.blocks = mine;
    // Of the borders that part the tile the first one names the place.
    int64_t at = 0;
    for (int32_t border = 0; border <= threads_ && at == 0; ++border) {
      at = cut(border);
      if (at > 0 && at < pieces) {
        share.meets_at = border;
        share.is_shared = true;
      }
    }
  } else {
    share.queries = mine;
  }
  done_ += cost;
  return share;
}

}  // namespace lorica::kernels::cpu
