// LocalMemory: one memory of a core (L1, UB, L0A, L0B, L0C, bias table): bytes, one shadow byte
// each (1: never written), and the hazard state of each granule. Owned by a Core.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "lorica/kernels/ascend/sim/core_api.h"
#include "lorica/kernels/ascend/sim/timeline.h"

namespace lorica::ascend {

// Bytes [begin + i * step, + piece) for i < count, from the start of a view.
struct Strip {
  int64_t begin = 0;
  int64_t piece = 0;
  int64_t step = 0;
  int64_t count = 1;
  int64_t end() const { return begin + (count - 1) * step + piece; }
};

// Last write and last read of each pipe, by its instruction count there (from 1; 0: none).
struct Granule {
  uint32_t write_index = 0;
  std::array<uint32_t, kPipes> read_index{};
  // Bytes of the granule that the last write covered, so that two results in one block do not
  // count as one place.
  uint16_t write_begin = 0;
  uint16_t write_end = 0;
  uint8_t write_pipe = 0;
};

struct LocalMemory {
  Space space = Space::kL1;
  const char* name = "";
  int64_t capacity = 0;
  int64_t alignment = 32;
  int shift = 5;           // log2 of a granule's bytes
  int64_t high_water = 0;  // nothing above was touched since Reset
  std::vector<uint8_t> data;
  std::vector<uint8_t> shadow;
  std::vector<Granule> granules;

  void Create(Space which, const char* text, int64_t bytes, int64_t align, int granule_shift);
  // As after power-on: everything uninitialised, no access known.
  void Reset();
};

}  // namespace lorica::ascend
