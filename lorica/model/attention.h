// The attention block of a layer: norm, q/k/v, head norms, rope, K/V write, attention, o, added to
// the residual. Called by every thread of a step's region; ends with a Sync.
#pragma once

#include "lorica/model/step.h"

namespace lorica::model {

void RunAttentionBlock(const Step& step, int32_t layer, const TeamMember& member);

}  // namespace lorica::model
