// Where the time of a step goes: its parts, as thread 0 meets them (what it waits for included),
// against the whole, and beside each the time in which its bytes or its products could be had.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/floor.h"
#include "lorica/base/trace.h"
#include "lorica/model/model.h"

namespace lorica::bench {

class StepBreakdown {
 public:
  // A step that took `seconds`, `trace` counting it alone.
  void Add(double seconds, const Trace& trace);
  bool empty() const { return steps_.empty(); }

  struct Work {
    const model::Model* model = nullptr;
    int64_t rows = 0;       // of each step, all with logits
    double kv_bytes = 0.0;  // that a step reads
    bool has_flops = true;  // else the floor is that of reading alone
  };
  // Means over the faster half of the steps.
  void Print(const std::string& title, const Work& work, const Floor& floor, std::FILE* out) const;

 private:
  struct Step {
    double seconds = 0.0;
    std::array<double, kZones> parts{};
  };
  std::vector<Step> steps_;
};

}  // namespace lorica::bench
