// Who attends what: the tiles of a step's attention and how they are shared out over threads. Every
// thread of a region walks the same list and comes to the same shares. No bit depends on them: a
// share is some queries of a tile, or some of its blocks, whose partials are merged in the order of
// their positions. Pure functions; any thread.
#pragma once

#include <cstdint>

#include "lorica/base/thread_pool.h"
#include "lorica/kernels/params.h"

namespace lorica::kernels::cpu {

// Queries that meet each block of K and V while it is near.
inline constexpr int32_t kTileQueries = 24;

// (row, head) queries of one sequence that share a kv head.
struct QueryTile {
  const AttentionSequence* sequence = nullptr;
  int32_t kv_head = 0;
  int32_t first_row = 0;  // of the sequence's rows
  int32_t rows = 0;
  int32_t first_head = 0;  // of the group
  int32_t heads = 0;

  int32_t count() const { return rows * heads; }
  int32_t RowOf(int32_t query) const { return first_row + query / heads; }
  // Positions that a query attends to: [0, Length(query)).
  int64_t Length(int32_t query) const {
    return int64_t{sequence->position_begin} + RowOf(query) + 1;
  }
  int64_t Blocks() const { return (Length(count() - 1) + kAttentionBlock - 1) / kAttentionBlock; }
};

struct TileShare {
  QueryTile tile;
  IndexRange queries;
  IndexRange blocks;
  // The tile's blocks are several threads': their partials meet in the scratch of thread
  // `meets_at`.
  bool is_shared = false;
  int32_t meets_at = 0;

  bool empty() const { return queries.size() == 0 || blocks.size() == 0; }
};

// Calls visit(tile) for each tile of the step, sequence by sequence.
template <class Visit>
void ForEachTile(const AttentionParams& p, const Visit& visit) {
  const int32_t group = p.heads / p.layout.kv_heads;
  const int32_t heads = group < kTileQueries ? group : kTileQueries;
  const int32_t rows = kTileQueries / heads;
  for (const AttentionSequence& sequence : p.sequences) {
    QueryTile tile;
    tile.sequence = &sequence;
    for (tile.kv_head = 0; tile.kv_head < p.layout.kv_heads; ++tile.kv_head) {
      for (tile.first_row = 0; tile.first_row < sequence.rows; tile.first_row += rows) {
        const int32_t rows_left = sequence.rows - tile.first_row;
        tile.rows = rows < rows_left ? rows : rows_left;
        for (tile.first_head = 0; tile.first_head < group; tile.first_head += heads) {
          const int32_t heads_left = group - tile.first_head;
          tile.heads = heads < heads_left ? heads : heads_left;
          visit(tile);
        }
      }
    }
  }
}

// The tiles on a line, each as long as its cost, and the borders between threads on it.
class AttentionLine {
 public:
  AttentionLine(const AttentionParams& p, int32_t threads);

  // The share of a thread in the next tile of the line, which may be empty.
  TileShare Next(const QueryTile& tile, int32_t thread);

 private:
  int64_t Border(int32_t thread) const { return total_ * thread / threads_; }

  int32_t threads_;
  int64_t total_ = 0;
  int64_t done_ = 0;
};

}  // namespace lorica::kernels::cpu
