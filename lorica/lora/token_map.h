// SlotId and TokenMap: the slot of each token of a step. A slot is the index of a version that is
// resident on the device; it belongs to a token, not to a sequence (an activated LoRA changes it
// inside a prompt). Plain values.
#pragma once

#include <cstdint>
#include <vector>

namespace lorica::lora {

struct SlotId {
  int32_t index = 0;
  bool operator==(const SlotId&) const = default;
  auto operator<=>(const SlotId&) const = default;
};

// Tokens of the bare base model. Never in a segment, never in a table.
inline constexpr SlotId kBaseModel{-1};

using TokenMap = std::vector<SlotId>;  // [T]

}  // namespace lorica::lora
