// For benchmarks of decode steps: 64 prompts of 256 tokens cost minutes to compute and no decode
// step depends on what they left in memory, only on how much of it there is.
#pragma once

#include "lorica/engine/engine.h"

namespace lorica::engine {

// Admits every request that was submitted and counts its prompt as computed but for the last token,
// over pages that hold small numbers. Prefixes must not be reused, as a page then is not what its
// key says, and there must be room for all. The engine thread.
void AssumePromptsComputed(Engine* engine);

}  // namespace lorica::engine
