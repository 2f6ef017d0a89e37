// The attention block of a layer, in two parts, since rows may leave between them: norm, q/k/v,
// head norms, rope, K/V write, attention; then o, added to the residual. Called by every thread of
// a step's region; each part ends with a Sync.
#pragma once

#include <span>

#include "lorica/model/step.h"

namespace lorica::model {

// K and V of all rows are written; `asking` are those that attend, in step.sequences or parts of
// them, and their results lie at their own rows of the attention buffer.
void RunAttentionBlock(const Step& step, int32_t layer,
                       std::span<const kernels::AttentionSequence> asking,
                       const TeamMember& member);
void RunAttentionOutput(const Step& step, int32_t layer, const TeamMember& member);

}  // namespace lorica::model
