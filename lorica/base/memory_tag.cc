#include "lorica/base/memory_tag.h"

namespace lorica {

std::string_view MemoryTagName(MemoryTag tag) {
  switch (tag) {
    case MemoryTag::kWeights:
      return "weights";
    case MemoryTag::kAdapterArena:
      return "adapter_arena";
    case MemoryTag::kAdapterCold:
      return "adapter_cold";
    case MemoryTag::kKvPages:
      return "kv_pages";
    case MemoryTag::kActivations:
      return "activations";
    case MemoryTag::kOther:
      return "other";
  }
  return "unknown";
}

}  // namespace lorica
