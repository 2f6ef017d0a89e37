#include "lorica/engine/logit_reader.h"

#include <algorithm>

#include "lorica/engine/logprobs.h"

namespace lorica::engine {

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
      for (int64_t i = range.begin; i < range.end; ++i) {
        const auto index = static_cast<size_t>(begin + i);
        rows_[index] = ReadRow(
            step.uses[index], {logits.values + i * logits.stride, static_cast<size_t>(vocab_)},
            logits.stats[static_cast<size_t>(i)], &scratch_[static_cast<size_t>(member.thread)]);
      }
    });
  }
  return rows_;
}

LogitReader::Row LogitReader::ReadRow(const LogitUse& use, std::span<const float> logits,
                                      const kernels::RowStats& stats,
                                      SamplerScratch* scratch) const {
  if (!stats.finite) return {{}, false};
  const Sequence& sequence = *use.sequence;
  const int32_t position = use.position + 1;  // of the token that the row is about
  int32_t token = 0;
  if (use.samples) {
    SampleInput input;
    input.logits = logits;
    input.stats = &stats;
    input.params = &sequence.sampling;
    input.counts = &sequence.counts;
    if (sequence.checker.generated() < sequence.checker.min_tokens()) {
      input.forbidden = sequence.checker.ending_tokens();
    }
    input.seed = sequence.seed;
    input.position = position;
    token = SampleToken(input, scratch);
  } else {
    token = sequence.tokens[static_cast<size_t>(position)];
  }
  if (!sequence.sampling.logprobs.has_value()) return {{token, std::nullopt, {}}, true};
  return {MakeTokenInfo(logits, stats, token, *sequence.sampling.logprobs), true};
}

}  // namespace lorica::engine
