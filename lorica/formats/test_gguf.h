// GgufBuilder: the bytes of a GGUF file, key by key and tensor by tensor, for the tests of readers.
// Any part may be wrong: it writes what it is told.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace lorica::formats::testing {

// How GGUF numbers the types of metadata values.
enum GgufType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};
// And of tensors.
constexpr uint32_t kTensorF32 = 0;
constexpr uint32_t kTensorQ80 = 8;
constexpr uint32_t kTensorI8 = 24;

// The bytes of a value, and of a string as GGUF writes it.
template <typename T>
std::string Raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}
inline std::string Text(const std::string& text) { return Raw<uint64_t>(text.size()) + text; }

struct GgufBuilder {
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::string keys, tensors, data;
  uint64_t key_count = 0, tensor_count = 0;
  uint64_t alignment = 32;

  GgufBuilder& Key(const std::string& key, uint32_t type, const std::string& value) {
    keys += Text(key) + Raw(type) + value;
    ++key_count;
    return *this;
  }
  GgufBuilder& Array(const std::string& key, uint32_t type, uint64_t count,
                     const std::string& values) {
    return Key(key, kArray, Raw(type) + Raw(count) + values);
  }
  // An array of strings.
  GgufBuilder& Strings(const std::string& key, const std::vector<std::string>& list) {
    std::string values;
    for (const std::string& text : list) values += Text(text);
    return Array(key, kString, list.size(), values);
  }
  // `ne` as the file has it: the dimension that is dense comes first.
  GgufBuilder& Tensor(const std::string& name, const std::vector<int64_t>& ne, uint32_t type,
                      uint64_t offset) {
    tensors += Text(name) + Raw<uint32_t>(ne.size());
    for (const int64_t n : ne) tensors += Raw(n);
    tensors += Raw(type) + Raw(offset);
    ++tensor_count;
    return *this;
  }
  std::string Bytes() const {
    std::string bytes = magic + Raw(version) + Raw(tensor_count) + Raw(key_count) + keys + tensors;
    if (!data.empty()) bytes.resize((bytes.size() + alignment - 1) / alignment * alignment, '\xAA');
    return bytes + data;
  }
};

}  // namespace lorica::formats::testing
