// LogitReader: step 8 of a request's way. Reads the wanted rows of logits in blocks and makes of
// each a token with its log-probabilities: the next one of a sequence, or one of a prompt. Rows of
// a block are shared out over the threads; each row is read by one thread alone, so the thread
// count changes no bit. The rows of a draft are one thread's, in order, and end at the first guess
// that was wrong. Owned by the engine and called by its thread.
#pragma once

#include <cstdint>
#include <vector>

#include "lorica/base/machine_context.h"
#include "lorica/engine/batch_builder.h"
#include "lorica/engine/sampler.h"
#include "lorica/model/transformer.h"

namespace lorica::engine {

class LogitReader {
 public:
  LogitReader(int32_t vocab, MachineContext* context);

  struct Row {
    TokenInfo info;       // logprob where the request asked for it
    bool finite = true;   // else `info` means nothing
    bool reached = true;  // else a guess before it was wrong, and it was not read
  };
  // [step.uses]; valid until the next call. `transformer` has run `step.batch`.
  const std::vector<Row>& Read(const StepBatch& step, model::Transformer* transformer);

 private:
  bool GuessesWereRight(const LogitUse& use, size_t index) const;
  Row ReadRow(const LogitUse& use, std::span<const float> logits, const kernels::RowStats& stats,
              SamplerScratch* scratch) const;

  int32_t vocab_;
  MachineContext* context_;
  std::vector<SamplerScratch> scratch_;  // [threads]
  std::vector<Row> rows_;
};

}  // namespace lorica::engine
