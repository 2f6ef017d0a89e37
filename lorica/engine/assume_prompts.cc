#include "lorica/engine/assume_prompts.h"

#include <algorithm>
#include <cstring>

#include "lorica/base/check.h"
#include "lorica/engine/engine_impl.h"

namespace lorica::engine {

void AssumePromptsComputed(Engine* engine) {
  Engine::Impl& impl = *engine->impl_;
  LORICA_CHECK(!impl.options.prefix_reuse);
  // Finite and small in every type of K and V, scales of int8 included; and every page of memory
  // is written once, as pages never written share one page of zeros.
  std::memset(impl.pages.data(), 0x3c,
              static_cast<size_t>(impl.pages.pages() * impl.pages.layout().PageBytes()));
  impl.TakeMail();
  const auto left = [&] {
    return std::any_of(impl.sequences.begin(), impl.sequences.end(), [](const auto& entry) {
      return entry.second->pending() > 1 || entry.second->state != SequenceState::kRunning;
    });
  };
  while (left()) {
    impl.TendAdapters();
    const std::span<const ScheduledRows> scheduled = impl.ChooseRows();
    if (scheduled.empty()) impl.inbox.Wait(false);  // for adapters on their way
    for (const ScheduledRows& entry : scheduled) {
      impl.scheduler.Advance(entry.sequence, std::min(entry.rows, entry.sequence->pending() - 1));
    }
  }
}

}  // namespace lorica::engine
