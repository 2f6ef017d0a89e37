// What a byte is for. Every Buffer is charged to a tag of a MemoryLedger, so that memory in use
// by purpose is always known. MemoryLedger: owned by MachineContext, any thread may call it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace lorica {

enum class MemoryTag : uint8_t {
  kWeights,
  kAdapterArena,
  kAdapterCold,
  kKvPages,
  kActivations,
  kOther
};
inline constexpr int kMemoryTags = 6;

std::string_view MemoryTagName(MemoryTag tag);

class MemoryLedger {
 public:
  void Add(MemoryTag tag, int64_t bytes) {
    bytes_[static_cast<size_t>(tag)].fetch_add(bytes, std::memory_order_relaxed);
  }
  int64_t bytes(MemoryTag tag) const {
    return bytes_[static_cast<size_t>(tag)].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<int64_t>, kMemoryTags> bytes_{};
};

}  // namespace lorica
