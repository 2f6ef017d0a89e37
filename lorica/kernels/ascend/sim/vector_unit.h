// What the vector operations share: walks over the lanes of repeats, and loads and stores of
// elements as floats. Internal to the model.
#pragma once

#include "lorica/kernels/ascend/sim/core.h"

namespace lorica::ascend {

// Strides in 32-byte blocks.
struct LaneWalk {
  int64_t block_stride = 1;
  int64_t repeat_stride = 8;
};

inline bool LaneOn(const uint64_t mask[2], int64_t lane) {
  return (mask[lane / 64] >> (lane % 64) & 1) != 0;
}
// Byte of a lane of a repeat.
int64_t LaneOffset(const LaneWalk& walk, int32_t size, int64_t repeat, int64_t lane);
float LoadFloat(Type type, const uint8_t* at);
void StoreFloat(Type type, uint8_t* at, float value);

// Calls visit(Strip) with the bytes that the masked lanes of each block cover.
template <typename Shape, typename Visit>
void ForMaskedBlocks(const Shape& shape, const LaneWalk& walk, int32_t size, int64_t lanes,
                     const Visit& visit) {
  const int64_t a_block = 32 / size;
  for (int64_t r = 0; r < shape.repeat; ++r) {
    for (int64_t first = 0; first < lanes; first += a_block) {
      int64_t low = -1;
      int64_t high = -1;
      for (int64_t lane = first; lane < std::min(lanes, first + a_block); ++lane) {
        if (!LaneOn(shape.mask, lane)) continue;
        if (low < 0) low = lane;
        high = lane;
      }
      if (low < 0) continue;
      visit(Strip{LaneOffset(walk, size, r, low), (high - low + 1) * size, 0, 1});
    }
  }
}

}  // namespace lorica::ascend
