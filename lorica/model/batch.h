// Batch: everything that one step of the model reads, and nothing else is read. The engine's
// batch_builder fills it into reused storage; the transformer only reads it. Owned by the engine
// thread.
#pragma once

#include <cstdint>
#include <vector>

#include "lorica/lora/token_map.h"

namespace lorica::model {

// The rows of one sequence in the step: consecutive, at consecutive positions.
struct BatchSequence {
  int32_t row_begin = 0;
  int32_t rows = 0;
  int32_t position_begin = 0;      // absolute position of the first row
  const int32_t* pages = nullptr;  // page ids by position / kPageTokens, through the last row
};

struct Batch {
  std::vector<int32_t> tokens;           // [T]
  std::vector<int32_t> positions;        // [T]
  lora::TokenMap slots;                  // [T]
  std::vector<BatchSequence> sequences;  // [Q], covering the rows in order
  std::vector<int32_t> logit_rows;       // rows whose logits are wanted, ascending

  int64_t rows() const { return static_cast<int64_t>(tokens.size()); }
  void Clear() {
    tokens.clear();
    positions.clear();
    slots.clear();
    sequences.clear();
    logit_rows.clear();
  }
};

}  // namespace lorica::model
