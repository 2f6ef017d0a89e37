#include "lorica/base/trace.h"

namespace lorica {

std::string_view ZoneName(Zone zone) {
  static constexpr std::array<std::string_view, kZones> kNames = {
      "answer",   "attention",   "batch",       "call_down", "call_gate_up", "call_o",
      "call_qkv", "embed",       "head",        "kv_write",  "linear",       "logit_stats",
      "logits",   "lora_expand", "lora_shrink", "norm",      "plan",         "rope",
      "sample",   "schedule",    "step",        "team"};
  return kNames[static_cast<size_t>(zone)];
}

}  // namespace lorica
