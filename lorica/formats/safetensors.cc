#include "lorica/formats/safetensors.h"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>

#include "lorica/formats/json.h"

namespace lorica::formats {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr std::string_view kMetadata = "__metadata__";
// dtype, shape, two offsets and the containers around them, with room for eight dimensions.
constexpr int64_t kValuesPerTensor = 16;

struct FormatDType {
  std::string_view name;
  std::optional<DType> dtype;  // none: in the format, of no use to Lorica
};

constexpr std::array kFormatDTypes = {
    FormatDType{"BOOL", DType::kBool},
    FormatDType{"U8", DType::kU8},
    FormatDType{"I8", DType::kI8},
    FormatDType{"I16", DType::kI16},
    FormatDType{"U16", DType::kU16},
    FormatDType{"I32", DType::kI32},
    FormatDType{"U32", DType::kU32},
    FormatDType{"I64", DType::kI64},
    FormatDType{"U64", DType::kU64},
    FormatDType{"F16", DType::kF16},
    FormatDType{"BF16", DType::kBF16},
    FormatDType{"F32", DType::kF32},
    FormatDType{"F64", DType::kF64},
    FormatDType{"F8_E4M3", DType::kF8E4M3},
    FormatDType{"F8_E5M2", DType::kF8E5M2},
    FormatDType{"F8_E8M0", std::nullopt},
    FormatDType{"F8_E4M3FNUZ", std::nullopt},
    FormatDType{"F8_E5M2FNUZ", std::nullopt},
    FormatDType{"F4", std::nullopt},
    FormatDType{"F6_E2M3", std::nullopt},
    FormatDType{"F6_E3M2", std::nullopt},
    FormatDType{"C64", std::nullopt},
};

struct Entry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  int64_t begin = 0;
  int64_t end = 0;
};

Result<DType> ReadDType(const JsonObjectReader& fields) {
  LORICA_ASSIGN_OR_RETURN(const std::string name, fields.String("dtype"));
  for (const FormatDType& known : kFormatDTypes) {
    if (known.name != name) continue;
    if (known.dtype) return *known.dtype;
    return Unimplemented(fields.where() + ": dtype " + name + " is not served");
  }
  return fields.Wrong("dtype", "a safetensors dtype");
}

Result<std::vector<int64_t>> ReadIntegers(const JsonObjectReader& fields, std::string_view key) {
  constexpr std::string_view kExpected = "an array of non-negative integers";
  const boost::json::value* value = fields.Find(key);
  if (value == nullptr || !value->is_array()) return fields.Wrong(key, kExpected);
  std::vector<int64_t> integers;
  for (const boost::json::value& element : value->get_array()) {
    const int64_t* integer = element.if_int64();
    if (integer == nullptr || *integer < 0) return fields.Wrong(key, kExpected);
    integers.push_back(*integer);
  }
  return integers;
}

// None when the product of the dimensions, zeros left out, passes int64: then no product of some
// of them overflows in later code either.
std::optional<int64_t> CheckedBytes(DType dtype, const Shape& shape) {
  int64_t bytes = BlockBytes(dtype);
  bool empty = false;
  for (const int64_t dimension : shape) {
    if (dimension == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(bytes, dimension, &bytes)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : bytes;
}

Result<Entry> ReadEntry(std::string_view name, const boost::json::value& value) {
  const std::string where = "tensor \"" + std::string(name) + "\"";
  LORICA_ASSIGN_OR_RETURN(const JsonObjectReader fields, JsonObjectReader::Of(value, where));
  for (const auto& field : fields.object()) {
    const std::string_view key = field.key();
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      return InvalidArgument(where + ": expected dtype, shape and data_offsets, found also \"" +
                             std::string(key) + "\"");
    }
  }
  Entry entry;
  entry.name = name;
  LORICA_ASSIGN_OR_RETURN(entry.dtype, ReadDType(fields));
  LORICA_ASSIGN_OR_RETURN(entry.shape, ReadIntegers(fields, "shape"));
  LORICA_ASSIGN_OR_RETURN(const std::vector<int64_t> offsets, ReadIntegers(fields, "data_offsets"));
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    return fields.Wrong("data_offsets", "a begin and an end that is not before it");
  }
  entry.begin = offsets[0];
  entry.end = offsets[1];
  const std::optional<int64_t> bytes = CheckedBytes(entry.dtype, entry.shape);
  if (!bytes) {
    return InvalidArgument(where + ": the size of shape " + ShapeToString(entry.shape) +
                           " does not fit 63 bits");
  }
  if (*bytes != entry.end - entry.begin) {
    return InvalidArgument(where + ": expected " + std::to_string(*bytes) + " bytes for " +
                           std::string(DTypeName(entry.dtype)) + " " + ShapeToString(entry.shape) +
                           ", found data_offsets of " + std::to_string(entry.end - entry.begin));
  }
  return entry;
}

Result<std::map<std::string, std::string>> ReadMetadata(const boost::json::value& value) {
  LORICA_ASSIGN_OR_RETURN(const JsonObjectReader fields,
                          JsonObjectReader::Of(value, "__metadata__"));
  std::map<std::string, std::string> metadata;
  for (const auto& field : fields.object()) {
    if (!field.value().is_string()) return fields.Wrong(field.key(), "a string");
    metadata.emplace(field.key(), field.value().get_string());
  }
  return metadata;
}

// The data may have neither a hole nor an overlap, so that no byte is hidden or read twice.
Status CheckCover(const std::vector<Entry>& entries, int64_t data_bytes) {
  int64_t covered = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != covered) {
      return InvalidArgument("tensor \"" + entry.name + "\": expected data_offsets to begin at " +
                             std::to_string(covered) + ", where the data before it ends, found " +
                             std::to_string(entry.begin));
    }
    covered = entry.end;
  }
  if (covered > data_bytes) {
    return DataLoss("expected " + std::to_string(covered) + " bytes of data, found " +
                    std::to_string(data_bytes) + ": the file is truncated");
  }
  if (covered < data_bytes) {
    return InvalidArgument("expected the data to end after " + std::to_string(covered) +
                           " bytes, found " + std::to_string(data_bytes));
  }
  return OkStatus();
}

Result<int64_t> ReadHeaderLength(std::span<const std::byte> bytes, int64_t limit) {
  const int64_t size = static_cast<int64_t>(bytes.size());
  if (size < kLengthBytes) {
    return DataLoss("expected a safetensors file, found " + std::to_string(size) + " bytes");
  }
  uint64_t length = 0;
  for (int i = kLengthBytes - 1; i >= 0; --i) length = length << 8 | std::to_integer<int>(bytes[i]);
  if (length > static_cast<uint64_t>(limit)) {
    return OutOfRange("expected a header of at most " + std::to_string(limit) + " bytes, found " +
                      std::to_string(length) + "; perhaps this is no safetensors file");
  }
  if (static_cast<int64_t>(length) > size - kLengthBytes) {
    return DataLoss("expected a header of " + std::to_string(length) + " bytes, found " +
                    std::to_string(size - kLengthBytes) + ": the file is truncated");
  }
  return static_cast<int64_t>(length);
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::Open(const std::string& path, MappedFile::Mode mode,
                                              const SafetensorsLimits& limits) {
  LORICA_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path, mode, limits.file_bytes));
  LORICA_ASSIGN_OR_RETURN(SafetensorsFile file, Parse(mapped.bytes(), path, limits));
  file.file_ = std::move(mapped);
  return file;
}

Result<SafetensorsFile> SafetensorsFile::Parse(std::span<const std::byte> bytes, std::string name,
                                               const SafetensorsLimits& limits) {
  SafetensorsFile file;
  file.name_ = std::move(name);
  const Status status = file.ReadHeader(bytes, limits);
  if (!status.ok()) return status.WithContext(file.name_);
  return file;
}

Status SafetensorsFile::ReadHeader(std::span<const std::byte> bytes,
                                   const SafetensorsLimits& limits) {
  LORICA_ASSIGN_OR_RETURN(const int64_t header_bytes, ReadHeaderLength(bytes, limits.header_bytes));
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes,
                                static_cast<size_t>(header_bytes));
  if (!header.starts_with('{')) {
    return InvalidArgument("expected a header that starts with '{'; is this a safetensors file?");
  }
  // Depth 3: the header, an entry, a shape.
  const JsonLimits json_limits{
      .bytes = limits.header_bytes,
      .depth = 3,
      .values = limits.tensors * kValuesPerTensor + limits.header_bytes / 64};
  Result<boost::json::value> json = ParseJson(header, json_limits);
  if (!json.ok()) return json.status().WithContext("header");

  std::vector<Entry> entries;
  for (const auto& field : json->get_object()) {
    const std::string_view key = field.key();
    if (key == kMetadata) {
      LORICA_ASSIGN_OR_RETURN(metadata_, ReadMetadata(field.value()));
      continue;
    }
    if (static_cast<int64_t>(entries.size()) == limits.tensors) {
      return OutOfRange("expected at most " + std::to_string(limits.tensors) +
                        " tensors, found more");
    }
    LORICA_ASSIGN_OR_RETURN(Entry entry, ReadEntry(key, field.value()));
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  const std::span<const std::byte> data =
      bytes.subspan(static_cast<size_t>(kLengthBytes + header_bytes));
  LORICA_RETURN_IF_ERROR(CheckCover(entries, static_cast<int64_t>(data.size())));

  tensors_.reserve(entries.size());
  for (Entry& entry : entries) {
    by_name_.push_back(tensors_.size());
    tensors_.push_back(
        {std::move(entry.name), {data.data() + entry.begin, entry.dtype, std::move(entry.shape)}});
  }
  std::sort(by_name_.begin(), by_name_.end(),
            [this](size_t a, size_t b) { return tensors_[a].name < tensors_[b].name; });
  return OkStatus();
}

const TensorView* SafetensorsFile::Find(std::string_view name) const {
  const auto found =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [this](size_t i, std::string_view n) { return tensors_[i].name < n; });
  if (found == by_name_.end() || tensors_[*found].name != name) return nullptr;
  return &tensors_[*found].view;
}

}  // namespace lorica::formats
