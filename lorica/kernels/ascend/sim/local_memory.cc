#include "lorica/kernels/ascend/sim/local_memory.h"

#include <algorithm>

namespace lorica::ascend {

void LocalMemory::Create(Space which, const char* text, int64_t bytes, int64_t align,
                         int granule_shift) {
  space = which;
  name = text;
  capacity = bytes;
  alignment = align;
  shift = granule_shift;
  const size_t size = static_cast<size_t>(bytes);
  data.assign(size, 0);
  shadow.assign(size, 1);
  granules.assign((size >> granule_shift) + 1, Granule{});
  high_water = 0;
}

void LocalMemory::Reset() {
  const size_t used = static_cast<size_t>(high_water);
  std::fill_n(data.begin(), used, uint8_t{0});
  std::fill_n(shadow.begin(), used, uint8_t{1});
  std::fill_n(granules.begin(), std::min(granules.size(), (used >> shift) + 1), Granule{});
  high_water = 0;
}

}  // namespace lorica::ascend
