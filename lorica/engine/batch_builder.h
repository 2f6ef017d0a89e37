// BatchBuilder: the scheduled rows as the Batch that the model reads, and what each row of logits
// is for. Fills reused storage; the engine thread calls it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lorica/engine/scheduler.h"
#include "lorica/model/batch.h"

namespace lorica::engine {

// Why the logits of a row are wanted.
struct LogitUse {
  Sequence* sequence = nullptr;
  int32_t position = 0;  // of the row; the logits are about position + 1
  bool samples = false;  // chooses the next token, else rates the prompt's
  // Guesses of sequence->draft that lead up to the row, its own token the last of them: the row
  // counts only if the rows before chose these.
  int32_t guessed = 0;
};

// What one step reads and asks.
struct StepBatch {
  model::Batch batch;
  std::vector<LogitUse> uses;  // [batch.logit_rows]
};

// `scheduled` is ordered by slot, so that the permutation of the segments is the identity; page
// lists are pointed at, not copied, and must not change before the step ends.
void BuildBatch(std::span<const ScheduledRows> scheduled, StepBatch* step);

}  // namespace lorica::engine
