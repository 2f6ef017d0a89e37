// Where everything lies in the memories of a core of arch 2201, and which flag is whose. Device
// code of lora_linear_cube.h; constants only.
//
// Flags, by pipe pair and id. "Free" flags are raised once at the start and taken back at the end.
//   MTE2_MTE1, MTE1_MTE2  0-3 weight slots of L1, 4-5 x blocks (split: also slices): full, free
//   MTE1_M                2-3 a half of L0B and what came before it: complete; 0-1 x in a half of
//                         L0A, where it comes after the tiles that it meets; in split expands 0
//                         slices, 1 S, 2-4 a place of L0B and y
//   M_MTE1                0-1 halves of L0A free, in split expands the place of y in the one and of
//                         slices; 2-3 halves of L0B, then 2-4 its places
//   M_FIX, FIX_M          0-1 tiles of y in L0C: complete, free; 2 S (whole; needs no "free");
//                         split: 2-3 a slice's sum, then 2 a third tile of y, 3 S
//   FIX_MTE1              0 S in L1 is full
//   across cores          0-1 the slices of all cores of a round are in memory
#pragma once

#include "kernel_operator.h"
#include "lorica/kernels/ascend/lora_program.h"

namespace lorica {
namespace ascend {

// L1, in bytes.
constexpr uint32_t kXBytes = kMaxRows * kBlock * 2;
constexpr uint32_t kSlotWeights = kGroupTiles * kFractal * kBlock * 2;
constexpr uint32_t kSlotY = 16384;
constexpr uint32_t kSlotBytes = kSlotWeights + kSlotY;
constexpr uint32_t kSlots = 4;
constexpr uint32_t kSlotAt = 2 * kXBytes;
constexpr uint32_t kSAt = kSlotAt + kSlots * kSlotBytes;
constexpr uint32_t kIdentityAt = kSAt + kMaxRowRanks * 2;
constexpr uint32_t kIdentityFractals = 1;
// L0A: two halves; while expanding, S lies in one and two tiles of y in the other.
constexpr uint32_t kHalfL0 = 32768;
// L0B: two halves; while whole items expand, the identity lies at the end of each.
constexpr uint32_t kIdentityL0 = kHalfL0 - kIdentityFractals * kFractalBytes;
// While split items expand: three places, an identity at the end of each, of which the first lies
// in the one half, the second in the other, the third across; behind them two scaled identities.
constexpr uint32_t kPlaceL0 = 41 * kFractalBytes;
constexpr uint32_t kPlaceIdentityL0 = kPlaceL0 - kIdentityFractals * kFractalBytes;
constexpr uint32_t kScaleL0 = 3 * kPlaceL0;
// L0C: S, or two sums of slices; then two tiles of y. While split items expand, the second sum's
// place is that of S, and the first one's that of a third tile of y, so that no chunk waits until
// what left two chunks before is in memory.
constexpr uint32_t kYL0C = kMaxRowRanks * 4;
constexpr uint32_t kYL0CBytes = 32768;
constexpr uint32_t kL0CBytes = 131072;
constexpr uint32_t kSumBytes = 1024;  // 16 x 16 in fp32
// The flags of S of a whole item, or of a slice's sum in each place, and of S of a split item.
constexpr uint32_t kSliceFlag = 2;
constexpr uint32_t kSumsFlag = 3;
// Cross-core flags, one a round.
constexpr uint16_t kAllSlices = 0;
// Slices of a few tiles of S in the place of a block of x, and behind them the scaled identities.
constexpr uint32_t kScaleAt = kMaxRows * kMostSlices * kFractal * 4;
constexpr uint32_t kWideFractals = 2;    // of 16 x 8 in fp32 make 16 x 16
constexpr uint32_t kWideElements = 128;  // of one
// Of L0A: behind y twice the slices of 16 rows.
constexpr uint32_t kSumsL0A = kSlotY;
constexpr uint32_t kSumsL0 = kMostSlices * kFractal * kFractal * 4;
constexpr uint32_t kSFlag = 1;
// S of a split item: two places in L1, and two in L0A.
constexpr uint32_t kSplitS = kSplitRowRanks * 2;

}  // namespace ascend
}  // namespace lorica
