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
// The factors of `folder_of`, the same file under a second name, with an alpha of its own: another
// adapter that takes no place on the disk.
Status WriteLinkedAdapter(const std::string& folder, const std::string& folder_of, int32_t rank,
                          int32_t alpha);

}  // namespace lorica::bench
