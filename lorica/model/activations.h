// Activations: every buffer that a step computes in, allocated once for the largest step. Owned by
// Transformer; the threads of a step's region share them by the kernels' partitions.
#pragma once

#include <cstdint>

#include "lorica/base/buffer.h"
#include "lorica/base/status.h"
#include "lorica/kernels/backend.h"
#include "lorica/model/config.h"

namespace lorica::model {

// Dense rows of `width` floats.
class Rows {
 public:
  static Result<Rows> Allocate(int64_t rows, int64_t width, MemoryLedger* ledger);

  float* data() { return reinterpret_cast<float*>(storage_.data()); }
  const float* data() const { return reinterpret_cast<const float*>(storage_.data()); }
  float* row(int64_t r) { return data() + r * width_; }
  int64_t width() const { return width_; }

 private:
  Buffer storage_;
  int64_t width_ = 0;
};

struct Activations {
  struct Sizes {
    int64_t rows = 0;        // of a step
    int64_t logit_rows = 0;  // of one block of logits
    int64_t positions = 0;   // of the longest sequence
    int32_t threads = 1;
  };
  static Result<Activations> Allocate(const ModelConfig& config, const Sizes& sizes,
                                      const kernels::Backend& backend, MemoryLedger* ledger);

  Rows residual;    // [T, D]
  Rows normed;      // [T, D]
  Rows q;           // [T, H * E]
  Rows k;           // [T, G * E]
  Rows v;           // [T, G * E]
  Rows attention;   // [T, H * E]
  Rows gate;        // [T, F]
  Rows up;          // [T, F]
  Rows packed_x;    // one row: the widest packed input
  Rows scratch;     // [threads, attention scratch]
  Rows head_input;  // [logit_rows, D]
  Rows logits;      // [logit_rows, V]
};

}  // namespace lorica::model
