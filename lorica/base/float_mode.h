// ScopedFlushDenormals: this thread computes with FTZ and DAZ while it lives (isolation rule (e):
// the bf16 dot product flushes always, so every path does). Restores the mode it found.
#pragma once

#include <cstdint>

namespace lorica {

class ScopedFlushDenormals {
 public:
  ScopedFlushDenormals();
  ~ScopedFlushDenormals();
  ScopedFlushDenormals(const ScopedFlushDenormals&) = delete;
  ScopedFlushDenormals& operator=(const ScopedFlushDenormals&) = delete;

 private:
  uint64_t saved_ = 0;
};

}  // namespace lorica
