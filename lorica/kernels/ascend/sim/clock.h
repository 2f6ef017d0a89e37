// Clock: what a pipe knows to be complete: for every pipe of its own core, and, after cross-core
// flags, of the others, the number of instructions done (happens-before, a vector clock). Plain
// values.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "lorica/kernels/ascend/sim/timeline.h"

namespace lorica::ascend {

struct Clock {
  std::array<uint32_t, kPipes> own{};
  // [cores * kPipes], shared until it grows; null before the first cross-core wait.
  std::shared_ptr<const std::vector<uint32_t>> others;

  // True when something was learnt.
  bool Join(const Clock& other) {
    bool grew = false;
    for (size_t p = 0; p < kPipes; ++p) {
      grew = grew || other.own[p] > own[p];
      own[p] = std::max(own[p], other.own[p]);
    }
    return JoinOthers(other.others) || grew;
  }
  bool JoinOthers(const std::shared_ptr<const std::vector<uint32_t>>& add) {
    if (add == nullptr || add == others) return false;
    if (others == nullptr) {
      others = add;
      return true;
    }
    std::vector<uint32_t> merged = *others;
    for (size_t i = 0; i < merged.size(); ++i) merged[i] = std::max(merged[i], (*add)[i]);
    if (merged == *others) return false;
    others = std::make_shared<const std::vector<uint32_t>>(std::move(merged));
    return true;
  }
};

}  // namespace lorica::ascend
