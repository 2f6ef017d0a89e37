#include "lorica/formats/gguf_parser.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "lorica/formats/gguf_tensor_types.h"

namespace lorica::formats {
namespace {

constexpr uint32_t kDefaultAlignment = 32;
constexpr uint32_t kMinAlignment = 8;
constexpr size_t kMaxDimensions = 4;
constexpr size_t kMaxKeyBytes = 65535;
constexpr size_t kMaxTensorNameBytes = 63;
// The least that a key (length, one byte, type, one byte) and a tensor (length, one byte,
// dimensions, type, offset) take.
constexpr uint64_t kMinKeyBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 4 + 8;

// The type numbers of metadata values are the indices of GgufValue's alternatives up to the
// string, then the array, then the rest.
constexpr uint32_t kStringType = 8;
constexpr uint32_t kArrayType = 9;
constexpr uint32_t kTypes = 13;

bool IsPrintableAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
}

Result<bool> ReadBool(GgufCursor& cursor) {
  LORICA_ASSIGN_OR_RETURN(const uint8_t byte, cursor.Read<uint8_t>());
  if (byte > 1) return InvalidArgument("expected a bool of 0 or 1, found " + std::to_string(byte));
  return byte == 1;
}

// None when `value` passes uint64.
std::optional<uint64_t> AlignUp(uint64_t value, uint64_t alignment) {
  uint64_t padded = 0;
  if (__builtin_add_overflow(value, alignment - 1, &padded)) return std::nullopt;
  return padded & ~(alignment - 1);
}

template <typename R, typename Function>
R Dispatch(uint32_t type, Function function) {
  switch (type) {
    case 0:
      return function(std::type_identity<uint8_t>());
    case 1:
      return function(std::type_identity<int8_t>());
    case 2:
      return function(std::type_identity<uint16_t>());
    case 3:
      return function(std::type_identity<int16_t>());
    case 4:
      return function(std::type_identity<uint32_t>());
    case 5:
      return function(std::type_identity<int32_t>());
    case 6:
      return function(std::type_identity<float>());
    case 7:
      return function(std::type_identity<bool>());
    case kStringType:
      return function(std::type_identity<std::string>());
    case 10:
      return function(std::type_identity<uint64_t>());
    case 11:
      return function(std::type_identity<int64_t>());
    case 12:
      return function(std::type_identity<double>());
  }
  LORICA_CHECK(false);
}

// No product of some of the dimensions, and no byte count, may pass int64.
Status CheckSize(const TensorView& view) {
  const int64_t block = BlockElements(view.dtype);
  const int64_t columns = view.shape.empty() ? 1 : view.shape.back();
  if (columns % block != 0) {
    return InvalidArgument("expected rows of a multiple of " + std::to_string(block) +
                           " elements for type " + std::string(DTypeName(view.dtype)) + ", found " +
                           std::to_string(columns));
  }
  int64_t size = BlockBytes(view.dtype);
  for (const int64_t dimension : view.shape) {
    if (__builtin_mul_overflow(size, std::max<int64_t>(dimension, 1), &size)) {
      return InvalidArgument("the size of shape " + ShapeToString(view.shape) +
                             " does not fit 63 bits");
    }
  }
  return OkStatus();
}

}  // namespace

std::string QuotedForMessage(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text.substr(0, 64)) quoted.push_back(c >= 0x20 && c <= 0x7e ? c : '?');
  return quoted + (text.size() > 64 ? "...\"" : "\"");
}

Status GgufParser::Parse() {
  LORICA_RETURN_IF_ERROR(ReadHeader());
  for (uint64_t i = 0; i < keys_; ++i) LORICA_RETURN_IF_ERROR(ReadKey());
  LORICA_RETURN_IF_ERROR(ReadAlignment());
  LORICA_RETURN_IF_ERROR(RefuseSplitFile());
  for (uint64_t i = 0; i < tensors_; ++i) LORICA_RETURN_IF_ERROR(ReadTensor());
  LORICA_RETURN_IF_ERROR(PlaceTensors());
  return IndexTensors();
}

Status GgufParser::ReadHeader() {
  constexpr std::string_view kMagic = "GGUF";
  if (bytes_.size() < kMagic.size() ||
      std::memcmp(bytes_.data(), kMagic.data(), kMagic.size()) != 0) {
    return InvalidArgument("expected a file that starts with \"GGUF\"; this is no GGUF file");
  }
  LORICA_RETURN_IF_ERROR(cursor_.Read<uint32_t>().status());
  LORICA_ASSIGN_OR_RETURN(file_.version_, cursor_.Read<uint32_t>());
  if (file_.version_ != 0 && (file_.version_ & 0xFFFF) == 0) {
    return Unimplemented("expected a little-endian GGUF file, found a big-endian one");
  }
  if (file_.version_ == 1) return Unimplemented("GGUF version 1 is not served; convert the file");
  if (file_.version_ != 2 && file_.version_ != 3) {
    return InvalidArgument("expected GGUF version 2 or 3, found " + std::to_string(file_.version_));
  }
  LORICA_ASSIGN_OR_RETURN(tensors_, cursor_.Read<uint64_t>());
  LORICA_ASSIGN_OR_RETURN(keys_, cursor_.Read<uint64_t>());
  LORICA_RETURN_IF_ERROR(CheckCount("tensors", tensors_, limits_.tensors, kMinTensorBytes));
  return CheckCount("keys", keys_, limits_.keys, kMinKeyBytes);
}

Status GgufParser::CheckCount(const std::string& what, uint64_t count, int64_t limit,
                              uint64_t least) const {
  if (count > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return InvalidArgument("expected a number of " + what + " that is not negative, found " +
                           std::to_string(static_cast<int64_t>(count)));
  }
  if (count > cursor_.left() / least) {
    return DataLoss("expected " + std::to_string(count) + " " + what + ", found only " +
                    std::to_string(cursor_.left()) + " bytes");
  }
  if (count > static_cast<uint64_t>(limit)) {
    return OutOfRange("expected at most " + std::to_string(limit) + " " + what + ", found " +
                      std::to_string(count));
  }
  return OkStatus();
}

Status GgufParser::ReadKey() {
  LORICA_ASSIGN_OR_RETURN(const std::string_view key, cursor_.ReadString(kMaxKeyBytes));
  if (key.empty() || !IsPrintableAscii(key)) {
    return InvalidArgument("expected a key of printable ASCII, found " + QuotedForMessage(key));
  }
  if (file_.metadata_.find(key) != file_.metadata_.end()) {
    return InvalidArgument("key " + QuotedForMessage(key) + " occurs twice");
  }
  Result<GgufValue> value = ReadValue();
  if (!value.ok()) return value.status().WithContext("key " + QuotedForMessage(key));
  file_.metadata_.emplace(key, std::move(value).value());
  return OkStatus();
}

template <typename T>
Result<T> GgufParser::ReadScalar() {
  if constexpr (std::is_same_v<T, bool>) {
    return ReadBool(cursor_);
  } else if constexpr (std::is_same_v<T, std::string>) {
    LORICA_ASSIGN_OR_RETURN(const std::string_view text, cursor_.ReadString(limits_.string_bytes));
    return std::string(text);
  } else {
    return cursor_.Read<T>();
  }
}

template <typename T>
Result<GgufValue> GgufParser::ReadArray(uint64_t count) {
  constexpr uint64_t kLeast = std::is_same_v<T, std::string> ? 8 : sizeof(T);
  if (count > cursor_.left() / kLeast) {
    return DataLoss("expected an array of " + std::to_string(count) + " elements, found only " +
                    std::to_string(cursor_.left()) + " bytes");
  }
  if (count > static_cast<uint64_t>(limits_.array_elements)) {
    return OutOfRange("expected an array of at most " + std::to_string(limits_.array_elements) +
                      " elements, found " + std::to_string(count));
  }
  std::vector<T> values;
  values.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    LORICA_ASSIGN_OR_RETURN(T value, ReadScalar<T>());
    values.push_back(std::move(value));
  }
  return GgufValue(std::move(values));
}

Result<GgufValue> GgufParser::ReadValue() {
  LORICA_ASSIGN_OR_RETURN(const uint32_t type, ReadType());
  if (type != kArrayType) {
    return Dispatch<Result<GgufValue>>(type, [this]<typename T>(std::type_identity<T>) {
      Result<T> value = ReadScalar<T>();
      return value.ok() ? Result<GgufValue>(GgufValue(std::move(value).value())) : value.status();
    });
  }
  LORICA_ASSIGN_OR_RETURN(const uint32_t element, ReadType());
  if (element == kArrayType) return Unimplemented("arrays of arrays are not served");
  LORICA_ASSIGN_OR_RETURN(const uint64_t count, cursor_.Read<uint64_t>());
  return Dispatch<Result<GgufValue>>(
      element, [this, count]<typename T>(std::type_identity<T>) { return ReadArray<T>(count); });
}

Result<uint32_t> GgufParser::ReadType() {
  LORICA_ASSIGN_OR_RETURN(const uint32_t type, cursor_.Read<uint32_t>());
  if (type < kTypes) return type;
  return InvalidArgument("expected a value type below " + std::to_string(kTypes) + ", found " +
                         std::to_string(type));
}

Status GgufParser::ReadAlignment() {
  constexpr std::string_view kKey = "general.alignment";
  LORICA_ASSIGN_OR_RETURN(const std::optional<uint32_t> alignment, file_.FindU32(kKey));
  alignment_ = alignment.value_or(kDefaultAlignment);
  if (alignment_ >= kMinAlignment && std::has_single_bit(alignment_)) return OkStatus();
  return InvalidArgument("key \"general.alignment\": expected a power of two from 8 on, found " +
                         std::to_string(alignment_));
}

Status GgufParser::RefuseSplitFile() const {
  LORICA_ASSIGN_OR_RETURN(const std::optional<int64_t> parts, file_.FindInt("split.count"));
  if (parts.value_or(1) <= 1) return OkStatus();
  return Unimplemented("this is one of " + std::to_string(*parts) +
                       " files of a split GGUF; merge them into one");
}

Status GgufParser::ReadTensor() {
  LORICA_ASSIGN_OR_RETURN(const std::string_view name, cursor_.ReadString(kMaxTensorNameBytes));
  if (name.empty() || !IsPrintableAscii(name)) {
    return InvalidArgument("expected a tensor name of printable ASCII, found " +
                           QuotedForMessage(name));
  }
  return ReadTensorFacts(std::string(name)).WithContext("tensor " + QuotedForMessage(name));
}

Status GgufParser::ReadTensorFacts(std::string name) {
  LORICA_ASSIGN_OR_RETURN(const uint32_t dimensions, cursor_.Read<uint32_t>());
  if (dimensions > kMaxDimensions) {
    return InvalidArgument("expected at most 4 dimensions, found " + std::to_string(dimensions));
  }
  NamedTensor tensor{std::move(name), {}};
  for (uint32_t i = 0; i < dimensions; ++i) {
    LORICA_ASSIGN_OR_RETURN(const int64_t dimension, cursor_.Read<int64_t>());
    if (dimension < 0) {
      return InvalidArgument("expected dimensions that are not negative, found " +
                             std::to_string(dimension));
    }
    tensor.view.shape.insert(tensor.view.shape.begin(), dimension);
  }
  LORICA_ASSIGN_OR_RETURN(const uint32_t type, cursor_.Read<uint32_t>());
  LORICA_ASSIGN_OR_RETURN(tensor.view.dtype, GgufTensorType(type));
  LORICA_RETURN_IF_ERROR(CheckSize(tensor.view));
  LORICA_ASSIGN_OR_RETURN(const uint64_t offset, cursor_.Read<uint64_t>());
  offsets_.push_back(offset);
  file_.tensors_.push_back(std::move(tensor));
  return OkStatus();
}

// The tensors follow each other in the order of the file, each padded to the alignment.
Status GgufParser::PlaceTensors() {
  if (file_.tensors_.empty()) return OkStatus();
  const std::optional<uint64_t> start = AlignUp(cursor_.offset(), alignment_);
  if (!start || *start > bytes_.size()) {
    return DataLoss("expected tensor data after byte " + std::to_string(cursor_.offset()) +
                    ", found a file of " + std::to_string(bytes_.size()) +
                    " bytes: the file is truncated");
  }
  const uint64_t data_bytes = bytes_.size() - *start;
  uint64_t expected = 0;
  for (size_t i = 0; i < file_.tensors_.size(); ++i) {
    NamedTensor& tensor = file_.tensors_[i];
    const std::string where = "tensor " + QuotedForMessage(tensor.name);
    if (offsets_[i] != expected) {
      return InvalidArgument(where + ": expected offset " + std::to_string(expected) +
                             ", where the tensor before it ends, found " +
                             std::to_string(offsets_[i]));
    }
    const uint64_t size = static_cast<uint64_t>(tensor.view.bytes());
    if (expected > data_bytes || size > data_bytes - expected) {
      return DataLoss(where + ": expected " + std::to_string(size) + " bytes at offset " +
                      std::to_string(expected) + ", found data of " + std::to_string(data_bytes) +
                      " bytes: the file is truncated");
    }
    tensor.view.data = bytes_.data() + *start + expected;
    // Below the file's size plus an alignment of 32 bits: no overflow.
    expected = *AlignUp(expected + size, alignment_);
  }
  return OkStatus();
}

Status GgufParser::IndexTensors() {
  const std::vector<NamedTensor>& tensors = file_.tensors_;
  for (size_t i = 0; i < tensors.size(); ++i) file_.by_name_.push_back(i);
  std::sort(file_.by_name_.begin(), file_.by_name_.end(),
            [&](size_t a, size_t b) { return tensors[a].name < tensors[b].name; });
  for (size_t i = 1; i < tensors.size(); ++i) {
    const std::string& name = tensors[file_.by_name_[i]].name;
    if (tensors[file_.by_name_[i - 1]].name == name) {
      return InvalidArgument("tensor " + QuotedForMessage(name) + " occurs twice");
    }
  }
  return OkStatus();
}

}  // namespace lorica::formats
