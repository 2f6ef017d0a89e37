// DraftWorth: whether one more row with a guess pays in a step. Owned by the scheduler, made anew
// for each step.
#pragma once

#include <cstdint>

namespace lorica::engine {

class DraftWorth {
 public:
  // `rows` that the step computes in any case.
  explicit DraftWorth(int32_t rows) : rows_(rows), tokens_(rows) {}

  // Adds a row whose token is right with `chance`, if tokens per time gain by it. A step of n rows
  // costs as much time as kFixedRows + n rows.
  bool Take(double chance) {
    if (chance * (kFixedRows + rows_) < tokens_) return false;
    rows_ += 1.0;
    tokens_ += chance;
    return true;
  }

 private:
  static constexpr double kFixedRows = 12.0;
  double rows_;
  double tokens_;  // expected
};

}  // namespace lorica::engine
