#include "lorica/engine/logit_reader.h"

#include <algorithm>

#include "lorica/engine/logprobs.h"

namespace lorica::engine {
namespace {

// The first row of the block from `row` on that is not in the middle of a draft. At the block's
// begin it is `row` in any case: what the draft's earlier rows chose is known.
int64_t NextUnguessed(const StepBatch& step, int32_t begin, int32_t block, int64_t row) {
  while (row > 0 && row < block && step.uses[static_cast<size_t>(begin + row)].guessed > 0) ++row;
  return row;
}

}  // namespace

LogitReader::LogitReader(int32_t vocab, MachineContext* context)
    : vocab_(vocab), context_(context), scratch_(static_cast<size_t>(context->pool.threads())) {}

const std::vector<LogitReader::Row>& LogitReader::Read(const StepBatch& step,
                                                       model::Transformer* transformer) {
  const auto count = static_cast<int32_t>(step.uses.size());
  rows_.assign(step.uses.size(), Row());
  for (int32_t begin = 0; begin < count; begin += model::kLogitRows) {
    const int32_t block = std::min(model::kLogitRows, count - begin);
    const model::Transformer::Logits logits = transformer->ComputeLogits(begin, block);
    const TraceScope scope(&context_->trace, Zone::kSample);
    context_->pool.Run([&](const TeamMember& member) {
      const IndexRange range = SplitRange(block, member);
      const int64_t first = NextUnguessed(step, begin, block, range.begin);
      const int64_t last = NextUnguessed(step, begin, block, range.end);
      for (int64_t i = first; i < last; ++i) {
        const auto index = static_cast<size_t>(begin + i);
        if (!GuessesWereRight(step.uses[index], index)) {
          rows_[index].reached = false;
          continue;
        }
        rows_[index] = ReadRow(
            step.uses[index], {logits.values + i * logits.stride, static_cast<size_t>(vocab_)},
            logits.stats[static_cast<size_t>(i)], &scratch_[static_cast<size_t>(member.thread)]);
      }
    });
  }
  return rows_;
}

bool LogitReader::GuessesWereRight(const LogitUse& use, size_t index) const {
  if (use.guessed == 0) return true;
  const Row& before = rows_[index - 1];
  return before.reached && before.finite &&
         before.info.token == use.sequence->draft[static_cast<size_t>(use.guessed - 1)];
}

LogitReader::Row LogitReader::ReadRow(const LogitUse& use, std::span<const float> logits,
                                      const kernels::RowStats& stats,
                                      SamplerScratch* scratch) const {
  Row row;
  row.finite = stats.finite;
  if (!row.finite) return row;
  const Sequence& sequence = *use.sequence;
  const int32_t position = use.position + 1;  // of the token that the row is about
  int32_t token = 0;
  if (use.samples) {
    SampleInput input;
    input.logits = logits;
    input.stats = &stats;
    input.params = &sequence.sampling;
    input.counts = &sequence.counts;
    input.guessed = sequence.draft.first(static_cast<size_t>(use.guessed));
    if (sequence.checker.generated() + use.guessed < sequence.checker.min_tokens()) {
      input.forbidden = sequence.checker.ending_tokens();
    }
    input.seed = sequence.seed;
    input.position = position;
    token = SampleToken(input, scratch);
  } else {
    token = sequence.tokens[static_cast<size_t>(position)];
  }
  if (sequence.sampling.logprobs.has_value()) {
    row.info = MakeTokenInfo(logits, stats, token, *sequence.sampling.logprobs);
  } else {
    row.info.token = token;
  }
  return row;
}

}  // namespace lorica::engine
