// ModelTime: replays the instruction streams of a launch that had no error against the rates of
// the table. Called by Simulator::Launch.
#pragma once

#include <vector>

#include "lorica/kernels/ascend/sim/core.h"
#include "lorica/kernels/ascend/sim/cross_core.h"
#include "lorica/kernels/ascend/sim/simulator.h"

namespace lorica::ascend {

Timeline ModelTime(const LaunchOptions& options, const SocSpec& soc,
                   const std::vector<Core*>& cores, const std::vector<CrossCore::Sets>& waits,
                   GlobalMemory* gm);

}  // namespace lorica::ascend
