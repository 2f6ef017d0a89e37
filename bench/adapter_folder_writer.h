// Writes PEFT folders with random bf16 factors on all seven linears of a model, for benchmarks.
#pragma once

#include <cstdint>
#include <string>

#include "lorica/base/status.h"
#include "lorica/model/model.h"

namespace lorica::bench {

// `seed` decides every factor.
Status WriteRandomAdapter(const std::string& folder, const model::Model& model, int32_t rank,
                          uint32_t seed);

}  // namespace lorica::bench
