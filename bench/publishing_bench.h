// One table of the benchmark of adapters: what a thread that publishes all the while costs a step.
#pragma once

#include <cstdio>

#include "bench/adapter_world.h"

namespace lorica::bench {

Status CompareSteps(AdapterWorld* world, std::FILE* out);

}  // namespace lorica::bench
