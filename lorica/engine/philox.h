// Philox4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy
// as 1, 2, 3" (2011): four random words as a pure function of a counter and a key. A draw of
// Lorica is a function of (seed, position) alone (isolation rule (g)). Pure functions.
#pragma once

#include <array>
#include <cstdint>

namespace lorica::engine {

inline std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter,
                                      std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// Uniform in [0, 1), 53 bits: the draw for the token at `position` of a sequence.
inline double UniformDraw(uint64_t seed, int64_t position) {
  const auto counter = static_cast<uint64_t>(position);
  const std::array<uint32_t, 4> words =
      Philox({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0},
             {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t bits = (uint64_t{words[1]} << 32 | words[0]) >> 11;
  return static_cast<double>(bits) * 0x1.0p-53;
}

}  // namespace lorica::engine
