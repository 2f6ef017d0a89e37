#include "lorica/engine/batch_builder.h"

#include <algorithm>

namespace lorica::engine {

void BuildBatch(std::span<const ScheduledRows> scheduled, StepBatch* step) {
  model::Batch& batch = step->batch;
  batch.Clear();
  step->uses.clear();
  for (const ScheduledRows& entry : scheduled) {
    Sequence* sequence = entry.sequence;
    const int32_t begin = sequence->computed;
    batch.sequences.push_back(
        {static_cast<int32_t>(batch.rows()), entry.total(), begin, sequence->pages.data()});
    for (int32_t position = begin; position < begin + entry.total(); ++position) {
      const int32_t guessed = std::max(0, position + 1 - sequence->size());
      const bool samples = guessed > 0 || sequence->SamplesAt(position);
      if (samples || sequence->WantsPromptRow(position)) {
        batch.logit_rows.push_back(static_cast<int32_t>(batch.rows()));
        step->uses.push_back({sequence, position, samples, guessed});
      }
      batch.tokens.push_back(guessed > 0 ? sequence->draft[static_cast<size_t>(guessed - 1)]
                                         : sequence->tokens[static_cast<size_t>(position)]);
      batch.positions.push_back(position);
      batch.slots.push_back(sequence->slot);
    }
  }
}

}  // namespace lorica::engine
