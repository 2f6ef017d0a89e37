// What a plan becomes on its way to an AI Core: one array of 32-bit words in device memory, written
// by the host (lowering.h) and walked by lora_linear.cpp and lora_linear_310.cpp without branching
// on the data. Plain constants, C++17, no standard library: the device compiler reads this too.
//
//   word 0             cores
//   word 8 + 2 * core  offset of the core's first item, in words; number of its items
//   then the items, one after another: a head, `runs`, `members`, `tiles`.
#pragma once

#include <stdint.h>

namespace lorica {
namespace ascend {

// The matrix unit's fractal: 16 x 16 elements of 16 bits.
constexpr uint32_t kFractal = 16;
constexpr uint32_t kFractalElements = 256;
constexpr uint32_t kFractalBytes = 512;

// Inputs of one multiplication of the shrink: a constant, so that a row's sum is made in the same
// steps in whatever company it is.
constexpr uint32_t kStep = 128;
// Inputs that one copy of x and of an A tile brings into L1.
constexpr uint32_t kBlock = 512;
// Rank tiles of 16 that are multiplied side by side in the shrink.
constexpr uint32_t kGroupTiles = 2;
// Ranks of one adapter at one site, and rows of one item.
constexpr uint32_t kMaxRank = 256;
constexpr uint32_t kMaxRows = 128;
constexpr uint32_t kMaxRows2002 = 64;  // a row pitch in UB is 8 bits of 32-byte blocks
// Rows x ranks of one item: its S in fp32 fills half of the accumulator memory.
constexpr uint32_t kMaxRowRanks = 16384;
constexpr uint32_t kMaxInner = 28672;  // K and N; a row pitch must stay below 65536

constexpr uint32_t kCoresAt = 8;

// Head of an item.
enum ItemWord : uint32_t {
  kItemWords,      // of the whole record
  kItemRows,       // that hold tokens
  kItemRowBlocks,  // of 16
  kItemInner,      // K
  kItemTiles,
  kItemMembers,
  kItemRuns,
  kItemColumnBegin,
  kItemColumnEnd,
  kItemPitch,  // N of y
  kItemYLow,
  kItemYHigh,
  kItemSteps,       // k-steps of x that fit half of L0A
  kItemFirstGroup,  // where this core begins among the groups of tiles: cores that share an
                    // adapter then read different addresses
  kItemHead
};
// Consecutive rows of the batch that are consecutive in the item.
enum RunWord : uint32_t { kRunRow, kRunPlace, kRunCount, kRunWords };
// The rows of one adapter.
enum MemberWord : uint32_t {
  kMemberRunBegin,
  kMemberRunEnd,
  kMemberTileBegin,
  kMemberTiles,
  kMemberChunk,       // columns of one expand step
  kMemberFirstChunk,  // where this core begins
  kMemberWords
};
// The scale, an fp32 number, is what S is multiplied with where the unit can (arch 2002); on arch
// 2201 it is in B.
enum TileWord : uint32_t { kTileALow, kTileAHigh, kTileBLow, kTileBHigh, kTileScale, kTileWords };

}  // namespace ascend
}  // namespace lorica
