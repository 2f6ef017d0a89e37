// The feed-forward block of a layer: norm, gate and up, SwiGLU, down, added to the residual.
// Called by every thread of a step's region; ends with a Sync.
#pragma once

#include "lorica/model/step.h"

namespace lorica::model {

void RunMlpBlock(const Step& step, int32_t layer, const TeamMember& member);

}  // namespace lorica::model
