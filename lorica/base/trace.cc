#include "lorica/base/trace.h"

namespace lorica {

std::string_view ZoneName(Zone zone) {
  static constexpr std::array<std::string_view, kZones> kNames = {
      "attention", "batch", "embed", "linear", "logits",   "lora_expand", "lora_shrink",
      "norm",      "plan",  "rope",  "sample", "schedule", "step"};
  return kNames[static_cast<size_t>(zone)];
}

}  // namespace lorica
