// GgufCursor: reads the header of a GGUF file from front to back; every read checks first what is
// left. A view of bytes that the caller keeps; one thread.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "lorica/base/status.h"

namespace lorica::formats {

class GgufCursor {
 public:
  explicit GgufCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t offset() const { return offset_; }
  uint64_t left() const { return bytes_.size() - offset_; }

  template <typename T>
  Result<T> Read() {
    static_assert(std::endian::native == std::endian::little && std::is_arithmetic_v<T>);
    if (left() < sizeof(T)) return Truncated(sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

  // A u64 length and that many bytes; OUT_OF_RANGE over `limit`.
  Result<std::string_view> ReadString(int64_t limit) {
    LORICA_ASSIGN_OR_RETURN(const uint64_t size, Read<uint64_t>());
    if (size > static_cast<uint64_t>(limit)) {
      return OutOfRange("byte " + std::to_string(offset_) + ": expected a string of at most " +
                        std::to_string(limit) + " bytes, found " + std::to_string(size));
    }
    if (size > left()) return Truncated(size);
    const char* text = reinterpret_cast<const char*>(bytes_.data()) + offset_;
    offset_ += size;
    return std::string_view(text, size);
  }

  // DATA_LOSS: `wanted` bytes are not there.
  Status Truncated(uint64_t wanted) const {
    return DataLoss("byte " + std::to_string(offset_) + ": expected " + std::to_string(wanted) +
                    " bytes more, found " + std::to_string(left()) + ": the file is truncated");
  }

 private:
  std::span<const std::byte> bytes_;
  uint64_t offset_ = 0;
};

}  // namespace lorica::formats
