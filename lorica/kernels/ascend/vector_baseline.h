// The words of the vector baseline's program (vector_baseline.cpp): one slice (site) a launch pair.
// C++17, no standard library.
#pragma once

#include <stdint.h>

namespace lorica {
namespace ascend {

enum VectorWord : uint32_t {
  kVectorTokens,
  kVectorInner,    // K
  kVectorPitch,    // N
  kVectorPerCore,  // tokens of one core
  kVectorHead = 8
};
enum VectorToken : uint32_t {
  kTokenRow,
  kTokenRank,  // 8, 16, 32 or 64
  kTokenALow,  // A [rank, K], rows dense
  kTokenAHigh,
  kTokenBLow,  // B [N, rank], rows dense
  kTokenBHigh,
  kTokenScale,  // fp32
  kTokenWords = 8
};
constexpr uint32_t kVectorMaxRank = 64;

}  // namespace ascend
}  // namespace lorica
