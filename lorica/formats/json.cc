#include "lorica/formats/json.h"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/serializer.hpp>
#include <boost/json/value_stack.hpp>
#include <charconv>
#include <cmath>
#include <new>
#include <stdexcept>
#include <utility>

#include "lorica/base/mapped_file.h"

namespace lorica::formats {
namespace {

namespace json = boost::json;

// The events of Boost's parser, turned into a value. Boost's own handler keeps the last of two
// equal keys, knows no limit on the number of values, and rounds some doubles to a neighbour.
class Handler {
 public:
  static constexpr size_t max_object_size = json::object::max_size();
  static constexpr size_t max_array_size = json::array::max_size();
  static constexpr size_t max_key_size = json::string::max_size();
  static constexpr size_t max_string_size = json::string::max_size();

  explicit Handler(int64_t values) : values_left_(values) { stack_.reset(); }

  json::value Release() { return stack_.release(); }
  // Of the refusal that this handler made; OK when the parser itself refused.
  const Status& failure() const { return failure_; }

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_array_begin(json::error_code&) { return true; }
  bool on_array_end(size_t n, json::error_code& ec) {
    stack_.push_array(n);
    return Count(ec);
  }
  bool on_object_begin(json::error_code&) {
    object_starts_.push_back(keys_.size());
    return true;
  }
  bool on_object_end(size_t n, json::error_code& ec) {
    const auto first = keys_.begin() + static_cast<std::ptrdiff_t>(object_starts_.back());
    std::sort(first, keys_.end());
    const auto twice = std::adjacent_find(first, keys_.end());
    if (twice != keys_.end()) {
      return Fail(InvalidArgument("an object has the key \"" + *twice + "\" twice"), ec);
    }
    keys_.erase(first, keys_.end());
    object_starts_.pop_back();
    stack_.push_object(n);
    return Count(ec);
  }
  bool on_key_part(json::string_view s, size_t, json::error_code&) {
    key_.append(s.data(), s.size());
    stack_.push_chars(s);
    return true;
  }
  bool on_key(json::string_view s, size_t, json::error_code&) {
    key_.append(s.data(), s.size());
    keys_.push_back(std::exchange(key_, {}));
    stack_.push_key(s);
    return true;
  }
  bool on_string_part(json::string_view s, size_t, json::error_code&) {
    stack_.push_chars(s);
    return true;
  }
  bool on_string(json::string_view s, size_t, json::error_code& ec) {
    stack_.push_string(s);
    return Count(ec);
  }
  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(int64_t value, json::string_view text, json::error_code& ec) {
    if (value == 0 && text.starts_with('-')) {
      stack_.push_double(-0.0);
    } else {
      stack_.push_int64(value);
    }
    return Count(ec);
  }
  bool on_uint64(uint64_t value, json::string_view, json::error_code& ec) {
    stack_.push_uint64(value);
    return Count(ec);
  }
  bool on_double(double rounded, json::string_view text, json::error_code& ec) {
    double value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    // from_chars calls an underflow out of range too, and there Boost's zero is right.
    if (read.ec != std::errc()) value = std::abs(rounded) < 1 ? rounded : HUGE_VAL;
    if (!std::isfinite(value)) {
      return Fail(InvalidArgument("the number does not fit a double"), ec);
    }
    stack_.push_double(value);
    return Count(ec);
  }
  bool on_bool(bool value, json::error_code& ec) {
    stack_.push_bool(value);
    return Count(ec);
  }
  bool on_null(json::error_code& ec) {
    stack_.push_null();
    return Count(ec);
  }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

 private:
  bool Count(json::error_code& ec) {
    if (--values_left_ >= 0) return true;
    return Fail(OutOfRange("too many values"), ec);
  }
  bool Fail(Status failure, json::error_code& ec) {
    failure_ = std::move(failure);
    ec = json::error::exception;
    return false;
  }

  json::value_stack stack_;
  int64_t values_left_;
  std::string key_;                    // the part read so far
  std::vector<std::string> keys_;      // of all open objects
  std::vector<size_t> object_starts_;  // where in keys_ each open object begins
  Status failure_;
};

std::string_view Trimmed(std::string_view text) {
  const size_t last = text.find_last_not_of(" \t\r\n");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

Status AtByte(const Status& status, size_t offset) {
  return status.WithContext("byte " + std::to_string(offset));
}

Result<json::value> ParseOrThrow(std::string_view text, const JsonLimits& limits) {
  if (static_cast<int64_t>(text.size()) > limits.bytes) {
    return OutOfRange("expected JSON of at most " + std::to_string(limits.bytes) +
                      " bytes, found " + std::to_string(text.size()));
  }
  if (text.starts_with("\xEF\xBB\xBF")) {
    return InvalidArgument("byte 0: expected JSON, found a byte-order mark");
  }
  const std::string_view body = Trimmed(text);
  if (body.empty()) return InvalidArgument("byte 0: expected JSON, found nothing");

  json::parse_options options;
  options.max_depth = static_cast<size_t>(std::max(limits.depth, 0));
  json::basic_parser<Handler> parser(options, limits.values);
  json::error_code error;
  const size_t used = parser.write_some(false, body.data(), body.size(), error);
  if (!parser.handler().failure().ok()) return AtByte(parser.handler().failure(), used);
  if (error == json::error::too_deep) {
    return AtByte(OutOfRange("arrays and objects nest deeper than " + std::to_string(limits.depth)),
                  used);
  }
  if (error) return AtByte(InvalidArgument("bad JSON: " + error.message()), used);
  if (used < body.size()) {
    return AtByte(InvalidArgument("expected the end of the JSON text, found more"), used);
  }
  return parser.handler().Release();
}

std::string DescribeRange(const IntRange& range) {
  constexpr IntRange kAny;
  if (range.max != kAny.max) {
    if (range.min == kAny.min) return "an integer of at most " + std::to_string(range.max);
    return "an integer from " + std::to_string(range.min) + " to " + std::to_string(range.max);
  }
  if (range.min == kAny.min) return "an integer";
  if (range.min == 0) return "a non-negative integer";
  if (range.min == 1) return "a positive integer";
  return "an integer of at least " + std::to_string(range.min);
}

std::optional<int64_t> AsInt(const json::value& value, const IntRange& range) {
  std::optional<int64_t> integer;
  if (const int64_t* i = value.if_int64()) integer = *i;
  if (const double* d = value.if_double(); d != nullptr && range.integral_float) {
    // Doubles hold every integer only below 2^53.
    if (std::trunc(*d) == *d && std::abs(*d) <= 0x1p53) integer = static_cast<int64_t>(*d);
  }
  if (!integer || *integer < range.min || *integer > range.max) return std::nullopt;
  return integer;
}

}  // namespace

Result<json::value> ParseJson(std::string_view text, const JsonLimits& limits) {
  try {
    return ParseOrThrow(text, limits);
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("no memory for a JSON text of " + std::to_string(text.size()) +
                             " bytes");
  } catch (const std::length_error&) {
    return OutOfRange("the JSON text holds a string, array or object that is too long");
  }
}

Result<json::value> ReadJsonFile(const std::string& path, const JsonLimits& limits) {
  LORICA_ASSIGN_OR_RETURN(const MappedFile file,
                          MappedFile::Open(path, MappedFile::Mode::kRead, limits.bytes));
  Result<json::value> value = ParseJson(file.text(), limits);
  if (!value.ok()) return value.status().WithContext(path);
  return value;
}

std::string DescribeJson(const json::value& value) {
  constexpr size_t kShown = 60;
  char buffer[kShown + 1];
  json::serializer serializer;
  serializer.reset(&value);
  const json::string_view text = serializer.read(buffer, sizeof(buffer));
  if (text.size() <= kShown) return std::string(text);
  size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

Result<JsonObjectReader> JsonObjectReader::Of(const json::value& value, std::string where) {
  if (!value.is_object()) {
    return InvalidArgument(where + ": expected a JSON object, found " + DescribeJson(value));
  }
  return JsonObjectReader(value.get_object(), std::move(where));
}

JsonObjectReader::JsonObjectReader(const json::object& object, std::string where)
    : object_(&object), where_(std::move(where)) {}

const json::value* JsonObjectReader::Find(std::string_view key) const {
  const json::value* value = object_->if_contains({key.data(), key.size()});
  return value == nullptr || value->is_null() ? nullptr : value;
}

Status JsonObjectReader::Wrong(std::string_view key, std::string_view expected) const {
  const json::value* value = object_->if_contains({key.data(), key.size()});
  if (value == nullptr) return Missing(key, expected);
  return InvalidArgument(where_ + ": \"" + std::string(key) + "\": expected " +
                         std::string(expected) + ", found " + DescribeJson(*value));
}

Status JsonObjectReader::Missing(std::string_view key, std::string_view expected) const {
  return InvalidArgument(where_ + ": \"" + std::string(key) + "\": expected " +
                         std::string(expected) + ", found no such field");
}

namespace {

template <typename T>
Result<T> Required(Result<std::optional<T>> optional, const JsonObjectReader& reader,
                   std::string_view key, std::string_view expected) {
  if (!optional.ok()) return optional.status();
  if (!optional->has_value()) return reader.Wrong(key, expected);
  return std::move(**optional);
}

}  // namespace

Result<std::optional<int64_t>> JsonObjectReader::OptionalInt(std::string_view key,
                                                             const IntRange& range) const {
  const json::value* value = Find(key);
  if (value == nullptr) return std::optional<int64_t>();
  const std::optional<int64_t> integer = AsInt(*value, range);
  if (!integer) return Wrong(key, DescribeRange(range));
  return integer;
}

Result<int64_t> JsonObjectReader::Int(std::string_view key, const IntRange& range) const {
  return Required(OptionalInt(key, range), *this, key, DescribeRange(range));
}

Result<std::optional<double>> JsonObjectReader::OptionalDouble(std::string_view key) const {
  const json::value* value = Find(key);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number()) return Wrong(key, "a number");
  return std::optional<double>(value->to_number<double>());
}

Result<double> JsonObjectReader::Double(std::string_view key) const {
  return Required(OptionalDouble(key), *this, key, "a number");
}

Result<std::optional<bool>> JsonObjectReader::OptionalBool(std::string_view key) const {
  const json::value* value = Find(key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_bool()) return Wrong(key, "true or false");
  return std::optional<bool>(value->get_bool());
}

Result<bool> JsonObjectReader::Bool(std::string_view key) const {
  return Required(OptionalBool(key), *this, key, "true or false");
}

Result<std::optional<std::string>> JsonObjectReader::OptionalString(std::string_view key) const {
  const json::value* value = Find(key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return Wrong(key, "a string");
  return std::optional<std::string>(std::string(value->get_string()));
}

Result<std::string> JsonObjectReader::String(std::string_view key) const {
  return Required(OptionalString(key), *this, key, "a string");
}

Result<std::optional<std::vector<std::string>>> JsonObjectReader::OptionalStringArray(
    std::string_view key) const {
  const json::value* value = Find(key);
  if (value == nullptr) return std::optional<std::vector<std::string>>();
  const json::array* array = value->if_array();
  if (array == nullptr) return Wrong(key, "an array of strings");
  std::vector<std::string> strings;
  strings.reserve(array->size());
  for (const json::value& element : *array) {
    if (!element.is_string()) return Wrong(key, "an array of strings");
    strings.emplace_back(element.get_string());
  }
  return std::optional(std::move(strings));
}

Result<std::vector<std::string>> JsonObjectReader::StringArray(std::string_view key) const {
  return Required(OptionalStringArray(key), *this, key, "an array of strings");
}

Result<std::optional<JsonObjectReader>> JsonObjectReader::OptionalObject(
    std::string_view key) const {
  const json::value* value = Find(key);
  if (value == nullptr) return std::optional<JsonObjectReader>();
  if (!value->is_object()) return Wrong(key, "an object");
  return std::optional(
      JsonObjectReader(value->get_object(), where_ + ": \"" + std::string(key) + "\""));
}

Result<JsonObjectReader> JsonObjectReader::Object(std::string_view key) const {
  return Required(OptionalObject(key), *this, key, "an object");
}

}  // namespace lorica::formats
