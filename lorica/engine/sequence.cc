#include "lorica/engine/sequence.h"

#include <utility>

namespace lorica::engine {

std::string_view SequenceStateName(SequenceState state) {
  switch (state) {
    case SequenceState::kWaiting:
      return "waiting";
    case SequenceState::kAwaitingAdapter:
      return "awaiting_adapter";
    case SequenceState::kRunning:
      return "running";
    case SequenceState::kFinished:
      return "finished";
  }
  return "unknown";
}

Sequence::Sequence(Request request, StopChecker stop_checker)
    : sampling(std::move(request.sampling)),
      prompt_size(static_cast<int32_t>(request.prompt.size())),
      tokens(std::move(request.prompt)),
      checker(std::move(stop_checker)),
      counts(sampling, tokens) {
  if (!sampling.echo) return;
  prompt_infos.reserve(tokens.size());
  prompt_infos.push_back({tokens.front(), std::nullopt, {}});
  if (wants_prompt_logprobs()) return;  // the others come with their rows
  for (int32_t i = 1; i < prompt_size; ++i) {
    prompt_infos.push_back({tokens[static_cast<size_t>(i)], std::nullopt, {}});
  }
}

bool Sequence::WantsPromptRow(int32_t position) const {
  return !prompt_done && wants_prompt_logprobs() && position + 1 < prompt_size &&
         position + 1 >= static_cast<int32_t>(prompt_infos.size());
}

bool Sequence::SamplesAt(int32_t position) const {
  return position + 1 == size() && sampling.max_tokens > 0;
}

}  // namespace lorica::engine
