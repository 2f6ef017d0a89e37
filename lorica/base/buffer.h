// Buffer: the owner of aligned memory, charged to a MemoryLedger while it lives. Move-only; the
// holder is its owner. Large buffers ask the kernel for huge pages. Not synchronised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lorica/base/memory_tag.h"
#include "lorica/base/status.h"

namespace lorica {

// A cache line, and the row of a panel.
inline constexpr int64_t kBufferAlignment = 64;

class Buffer {
 public:
  Buffer() = default;
  // Zeroed memory of `bytes` (0 is legal). RESOURCE_EXHAUSTED if the system has none. `ledger`
  // may be null; else it must outlive the buffer.
  static Result<Buffer> Allocate(int64_t bytes, MemoryTag tag, MemoryLedger* ledger);

  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

  template <typename T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(data_), static_cast<size_t>(bytes_) / sizeof(T)};
  }
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data_), static_cast<size_t>(bytes_) / sizeof(T)};
  }

 private:
  void Release();

  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t mapped_bytes_ = 0;
  MemoryTag tag_ = MemoryTag::kOther;
  MemoryLedger* ledger_ = nullptr;
};

}  // namespace lorica
