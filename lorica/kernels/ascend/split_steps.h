// OrderSplit: what a core does with its chunks of split expands, in order: when S is made, and
// which chunks are brought to their end while each comes to L0 (lora_linear_cube.h). Plain
// functions of their arguments; the engine thread calls them once a call.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "lorica/kernels/ascend/lora_program.h"

namespace lorica::ascend {

// An expand of one core. Its chunks are [chunk_begin, chunk_end) of all of the core's.
struct SplitExpand {
  int32_t round = 0;
  int32_t part = 0;
  int32_t rows = 0;
  int32_t tiles = 0;
  size_t chunk_begin = 0;
  size_t chunk_end = 0;
};

struct SplitOrder {
  // Of each expand: the tile of its batch where its S begins; tiles of the batch that it begins, 0
  // when it begins none.
  std::vector<uint64_t> s_at;
  std::vector<uint64_t> batch_tiles;
  std::vector<uint64_t> steps;  // of each chunk, kStep...
};

// `leads`: chunks that are asked for before the sums of each round.
SplitOrder OrderSplit(std::span<const SplitExpand> expands,
                      const std::array<uint64_t, kRounds>& leads);

}  // namespace lorica::ascend
