#include "lorica/engine/batch_builder.h"

namespace lorica::engine {

void BuildBatch(std::span<const ScheduledRows> scheduled, StepBatch* step) {
  model::Batch& batch = step->batch;
  batch.Clear();
  step->uses.clear();
  for (const ScheduledRows& entry : scheduled) {
    Sequence* sequence = entry.sequence;
    const int32_t begin = sequence->computed;
    batch.sequences.push_back(
        {static_cast<int32_t>(batch.rows()), entry.rows, begin, sequence->pages.data()});
    for (int32_t position = begin; position < begin + entry.rows; ++position) {
      const bool samples = sequence->SamplesAt(position);
      if (samples || sequence->WantsPromptRow(position)) {
        batch.logit_rows.push_back(static_cast<int32_t>(batch.rows()));
        step->uses.push_back({sequence, position, samples});
      }
      batch.tokens.push_back(sequence->tokens[static_cast<size_t>(position)]);
      batch.positions.push_back(position);
      batch.slots.push_back(sequence->slot);
    }
  }
}

}  // namespace lorica::engine
