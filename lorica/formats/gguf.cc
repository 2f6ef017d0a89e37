#include "lorica/formats/gguf.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <type_traits>
#include <utility>

#include "lorica/formats/gguf_parser.h"

namespace lorica::formats {
namespace {

// In the order of GgufValue's alternatives.
constexpr const char* kTypeNames[] = {"u8",  "i8",   "u16",    "i16", "u32", "i32",
                                      "f32", "bool", "string", "u64", "i64", "f64"};

template <typename T>
inline constexpr bool kIsArray = false;
template <typename T>
inline constexpr bool kIsArray<std::vector<T>> = true;
template <typename T>
inline constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;

}  // namespace

std::string GgufTypeName(const GgufValue& value) {
  constexpr size_t kScalars = std::size(kTypeNames);
  const size_t index = value.index();
  if (index < kScalars) return kTypeNames[index];
  return std::string("array of ") + kTypeNames[index - kScalars];
}

Result<GgufFile> GgufFile::Open(const std::string& path, MappedFile::Mode mode,
                                const GgufLimits& limits) {
  LORICA_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path, mode, limits.file_bytes));
  LORICA_ASSIGN_OR_RETURN(GgufFile file, Parse(mapped.bytes(), path, limits));
  file.file_ = std::move(mapped);
  return file;
}

Result<GgufFile> GgufFile::Parse(std::span<const std::byte> bytes, std::string name,
                                 const GgufLimits& limits) {
  GgufFile file;
  file.name_ = std::move(name);
  try {
    const Status status = GgufParser(bytes, limits, &file).Parse();
    if (!status.ok()) return status.WithContext(file.name_);
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(file.name_ + ": no memory for the metadata");
  }
  return file;
}

const GgufValue* GgufFile::Find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

const TensorView* GgufFile::FindTensor(std::string_view name) const {
  const auto found =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [this](size_t i, std::string_view n) { return tensors_[i].name < n; });
  if (found == by_name_.end() || tensors_[*found].name != name) return nullptr;
  return &tensors_[*found].view;
}

Status GgufFile::WrongType(std::string_view key, std::string_view expected) const {
  return InvalidArgument(name_ + ": key " + QuotedForMessage(key) + ": expected " +
                         std::string(expected) + ", found " + GgufTypeName(*Find(key)));
}

template <typename T>
Result<const T*> GgufFile::FindAs(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return static_cast<const T*>(nullptr);
  const T* typed = std::get_if<T>(value);
  if (typed == nullptr) return WrongType(key, GgufTypeName(GgufValue(T())));
  return typed;
}

template <typename T>
Result<std::optional<T>> GgufFile::CopyAs(std::string_view key) const {
  LORICA_ASSIGN_OR_RETURN(const T* value, FindAs<T>(key));
  return value == nullptr ? std::optional<T>() : std::optional<T>(*value);
}

Result<std::optional<uint32_t>> GgufFile::FindU32(std::string_view key) const {
  return CopyAs<uint32_t>(key);
}
Result<std::optional<float>> GgufFile::FindF32(std::string_view key) const {
  return CopyAs<float>(key);
}
Result<std::optional<bool>> GgufFile::FindBool(std::string_view key) const {
  return CopyAs<bool>(key);
}
Result<std::optional<std::string>> GgufFile::FindString(std::string_view key) const {
  return CopyAs<std::string>(key);
}
Result<const std::vector<std::string>*> GgufFile::FindStringArray(std::string_view key) const {
  return FindAs<std::vector<std::string>>(key);
}
Result<const std::vector<float>*> GgufFile::FindF32Array(std::string_view key) const {
  return FindAs<std::vector<float>>(key);
}
Result<const std::vector<uint32_t>*> GgufFile::FindU32Array(std::string_view key) const {
  return FindAs<std::vector<uint32_t>>(key);
}
Result<const std::vector<int32_t>*> GgufFile::FindI32Array(std::string_view key) const {
  return FindAs<std::vector<int32_t>>(key);
}

Result<std::optional<int64_t>> GgufFile::FindInt(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::optional<int64_t>();
  return std::visit(
      [&]<typename T>(const T& v) -> Result<std::optional<int64_t>> {
        if constexpr (kIsInteger<T>) {
          if (std::in_range<int64_t>(v)) return std::optional(static_cast<int64_t>(v));
          return InvalidArgument(name_ + ": key " + QuotedForMessage(key) +
                                 ": expected an integer below 2^63, found " + std::to_string(v));
        }
        return WrongType(key, "an integer");
      },
      *value);
}

Result<std::optional<std::vector<int64_t>>> GgufFile::FindIntArray(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::optional<std::vector<int64_t>>();
  return std::visit(
      [&]<typename T>(const T& v) -> Result<std::optional<std::vector<int64_t>>> {
        if constexpr (kIsArray<T>) {
          if constexpr (kIsInteger<typename T::value_type>) {
            const auto fits = [](auto element) { return std::in_range<int64_t>(element); };
            if (std::all_of(v.begin(), v.end(), fits)) {
              return std::optional(std::vector<int64_t>(v.begin(), v.end()));
            }
          }
        }
        return WrongType(key, "an array of integers below 2^63");
      },
      *value);
}

}  // namespace lorica::formats
