// What a plan becomes on its way to an AI Core: one array of 64-bit words in device memory, written
// by the host (lowering.h) and walked by lora_linear.cpp and lora_linear_310.cpp without branching
// on the data. Plain constants, C++17, no standard library: the device compiler reads this too.
// A few words, then the items, one after another: a head, `runs`, `members`, `tiles`.
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
// Ranks of one adapter at one site; of a mix of adapters there; rows of one item.
constexpr uint32_t kMaxRank = 256;
constexpr uint32_t kMaxMixRank = 512;
constexpr uint32_t kMaxRows = 128;
constexpr uint32_t kMaxRows2002 = 64;  // a row pitch in UB is 8 bits of 32-byte blocks
// Rows x ranks of one item: its S in fp32 fills half of the accumulator memory.
constexpr uint32_t kMaxRowRanks = 16384;
constexpr uint32_t kSplitRowRanks = 8192;  // of a split item: two are under way
// Slices of k of one split sum (lora_linear_split.cpp).
constexpr uint32_t kMostSlices = 8;
constexpr uint32_t kMaxInner = 28672;  // K and N; a row pitch must stay below 65536

// Words before the first item. Word 0: cores.
constexpr uint32_t kCoresAt = 8;
// Of each core.
enum CoreWord : uint32_t {
  kCoreFirst,  // its first item, in words (32 bits), its split shrinks of rounds 0 and 1
  kCoreRest,   // its expands of rounds 0 and 1, or its whole items; how many units (a chunk's B and
               // y) go before the sums of rounds 0 and 1
  kCoreWords
};
constexpr uint32_t kRounds = 2;
// Word 1, of split programs: where the scaled identities begin, in words. Each: 16 x 16 of fp32 in
// two fractals, as the right operand of a product.
constexpr uint32_t kScalesAt = 1;
constexpr uint32_t kScaleWords = 128;

// Head of an item. Several numbers share a word (Field below), so that the scalar unit reads few.
enum ItemWord : uint32_t {
  kItemSize,     // words of the record (32 bits), rows that hold tokens, runs
  kItemShape,    // K, tiles, members, k-steps of x that fit half of L0A + 256 x slices
  kItemColumns,  // begin, end, N of y, group where this core begins: cores that share an adapter
                 // then read different addresses. Of a split shrink: begin and end of its inputs,
                 // floats from row to row of the slices
  kItemY,        // address of y
  kItemSums,     // of split items, address of the slices: [tiles][rows][slices][16] of fp32
  kItemHead
};
// Consecutive rows of the batch that are consecutive in the item: row of the batch (32 bits), row
// of the item, count.
constexpr uint32_t kRunWords = 1;
// The rows of one adapter.
enum MemberWord : uint32_t {
  kMemberSpan,   // first run, end of runs, first tile, tiles
  kMemberChunk,  // columns of one expand step, the chunk where this core begins; of split expands,
                 // the tile of its batch where its S begins, tiles of the batch that it begins
  kMemberWords
};
// Behind the tiles of a split expand, what is done while each of its chunks comes to L0, a byte a
// chunk: how many chunks are brought to their end before y comes, whether S of the next batch is
// made then, how many chunks are brought to their end after that.
constexpr uint32_t kStepBits = 8;
constexpr uint32_t kStepsOfWord = 64 / kStepBits;
constexpr uint32_t kStepMask = 255;
constexpr uint32_t kStepCount = 7;
constexpr uint32_t kStepAfter = 3;
constexpr uint32_t kStepSum = 128;
constexpr uint32_t kStepSumFirst = 64;
// Addresses, and the scale: an fp32 number that S is multiplied with on arch 2002; of split items
// the address of the identity times it, 2 fractals of fp32; of whole items of arch 2201 it is in B.
enum TileWord : uint32_t { kTileA, kTileB, kTileScale, kTileWords };

// 16 bits of a word, the lowest are number 0.
constexpr uint32_t FieldOf(uint64_t word, uint32_t number) {
  return static_cast<uint32_t>(word >> (16 * number)) & 0xffffu;
}
constexpr uint64_t Fields(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  return a | (b << 16) | (c << 32) | (d << 48);
}

}  // namespace ascend
}  // namespace lorica
