// GgufFile: a strict reader of one GGUF file, version 2 or 3, little-endian: typed metadata and
// tensors. It owns the mapping, or borrows the bytes given to Parse; its views live as long as it
// does. After Open any thread may read. Move-only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lorica/base/mapped_file.h"
#include "lorica/base/status.h"
#include "lorica/formats/named_tensor.h"

namespace lorica::formats {

// Exactly the type that the file declares; an array is the vector of its element type.
using GgufValue = std::variant<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, float, bool,
                               std::string, uint64_t, int64_t, double, std::vector<uint8_t>,
                               std::vector<int8_t>, std::vector<uint16_t>, std::vector<int16_t>,
                               std::vector<uint32_t>, std::vector<int32_t>, std::vector<float>,
                               std::vector<bool>, std::vector<std::string>, std::vector<uint64_t>,
                               std::vector<int64_t>, std::vector<double>>;

// "u32", "array of string", as messages name it.
std::string GgufTypeName(const GgufValue& value);

struct GgufLimits {
  int64_t file_bytes = int64_t{1} << 46;
  int64_t keys = int64_t{1} << 16;
  int64_t tensors = int64_t{1} << 20;
  int64_t string_bytes = int64_t{1} << 30;
  int64_t array_elements = int64_t{1} << 30;

  // What an adapter of a tenant may be.
  static GgufLimits ForAdapter() {
    return {.file_bytes = int64_t{64} << 30,
            .keys = int64_t{1} << 12,
            .tensors = int64_t{1} << 17,
            .string_bytes = int64_t{16} << 20,
            .array_elements = int64_t{1} << 22};
  }
};

class GgufFile {
 public:
  // INVALID_ARGUMENT says which rule broke, for which key or tensor; DATA_LOSS is a file that ends
  // early; UNIMPLEMENTED a known thing that is not served (version 1, big-endian, split files,
  // tensor types other than F32 F16 BF16 F64 I8 I16 I32 I64 Q4_0 Q4_1 Q8_0
  // Q4_K Q6_K); OUT_OF_RANGE a limit.
  static Result<GgufFile> Open(const std::string& path, MappedFile::Mode mode,
                               const GgufLimits& limits = {});
  // As Open, over bytes that the caller keeps; `name` opens the messages.
  static Result<GgufFile> Parse(std::span<const std::byte> bytes, std::string name,
                                const GgufLimits& limits = {});

  uint32_t version() const { return version_; }
  const std::string& name() const { return name_; }
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }

  // Lookups: nothing (or null) when the key is absent, INVALID_ARGUMENT when it has another type.
  const GgufValue* Find(std::string_view key) const;
  Result<std::optional<uint32_t>> FindU32(std::string_view key) const;
  // Of any integer type; a u64 above 2^63 - 1 is an error.
  Result<std::optional<int64_t>> FindInt(std::string_view key) const;
  Result<std::optional<float>> FindF32(std::string_view key) const;
  Result<std::optional<bool>> FindBool(std::string_view key) const;
  Result<std::optional<std::string>> FindString(std::string_view key) const;
  Result<const std::vector<std::string>*> FindStringArray(std::string_view key) const;
  Result<const std::vector<float>*> FindF32Array(std::string_view key) const;
  Result<const std::vector<uint32_t>*> FindU32Array(std::string_view key) const;
  Result<const std::vector<int32_t>*> FindI32Array(std::string_view key) const;
  // Of any integer type.
  Result<std::optional<std::vector<int64_t>>> FindIntArray(std::string_view key) const;

  // In the order of the file. Shapes are row-major, the reverse of GGUF's ne: a matrix with
  // ne = [columns, rows] has the shape [rows, columns].
  const std::vector<NamedTensor>& tensors() const { return tensors_; }
  const TensorView* FindTensor(std::string_view name) const;

 private:
  friend class GgufParser;
  GgufFile() = default;
  // Null when the key is absent.
  template <typename T>
  Result<const T*> FindAs(std::string_view key) const;
  template <typename T>
  Result<std::optional<T>> CopyAs(std::string_view key) const;
  Status WrongType(std::string_view key, std::string_view expected) const;

  MappedFile file_;
  std::string name_;
  uint32_t version_ = 0;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<NamedTensor> tensors_;
  std::vector<size_t> by_name_;  // indices into tensors_, in the order of names
};

}  // namespace lorica::formats
