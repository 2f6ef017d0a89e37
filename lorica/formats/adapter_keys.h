// AdapterKey: what a tensor's name in an adapter file says. Knows the names that PEFT writes, the
// wrappers that torch adds to them, and the names of the formats that are often mistaken for
// PEFT's. Pure functions and plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lorica::formats {

enum class AdapterKeyKind : uint8_t {
  kLoraA,
  kLoraB,
  kBaseCopy,     // X.base_layer.weight: the frozen base weight beside its LoRA
  kReplacement,  // X.weight or X.modules_to_save.NAME.weight: a weight in place of the base's
  kRefused,
};

struct AdapterKey {
  AdapterKeyKind kind = AdapterKeyKind::kRefused;
  // The module in the tree that was trained, without `base_model.model.` and without wrapper
  // segments: "model.layers.0.self_attn.q_proj".
  std::string module;
  // "default" in "….lora_A.default.weight"; mostly empty.
  std::string adapter_name;
  // For kRefused: what the tensor is, as the end of "found …".
  std::string_view meaning;
};

AdapterKey ParseAdapterKey(std::string_view tensor_name);

}  // namespace lorica::formats
