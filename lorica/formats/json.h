// Strict JSON for files and requests that we did not write, and readers of typed fields whose
// errors name the file, the field and what was found. Free functions and views, safe on any
// thread; a JsonObjectReader must not outlive the object that it reads.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lorica/base/status.h"

namespace lorica::formats {

struct JsonLimits {
  int64_t bytes = int64_t{256} << 20;
  int depth = 32;                      // arrays and objects inside each other
  int64_t values = int64_t{32} << 20;  // scalars, arrays and objects together
};

// One JSON text as RFC 8259 has it. INVALID_ARGUMENT, with the byte offset, for bad syntax, bad
// UTF-8, a byte-order mark, NaN or Infinity, a number beyond double, anything after the value, and
// a key that an object has twice; OUT_OF_RANGE over a limit. Integers that fit become int64 or
// uint64, every other number (a "-0" too) the nearest double.
Result<boost::json::value> ParseJson(std::string_view text, const JsonLimits& limits = {});

// ParseJson of a whole file, read into memory; messages start with the path.
Result<boost::json::value> ReadJsonFile(const std::string& path, const JsonLimits& limits = {});

// A value as a message shows it: the JSON text, cut after 60 bytes.
std::string DescribeJson(const boost::json::value& value);

struct IntRange {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
  bool integral_float = false;  // 16.0 counts as 16

  static IntRange Positive() { return {.min = 1}; }
  static IntRange NonNegative() { return {.min = 0}; }
};

// The fields of one object. An absent field and a null are the same here. `where` opens each
// message: "config.json", or "config.json: \"rope_scaling\"" for a nested object.
class JsonObjectReader {
 public:
  // INVALID_ARGUMENT when `value` is no object.
  static Result<JsonObjectReader> Of(const boost::json::value& value, std::string where);
  JsonObjectReader(const boost::json::object& object, std::string where);

  const boost::json::object& object() const { return *object_; }
  const std::string& where() const { return where_; }

  // Null when absent or JSON null.
  const boost::json::value* Find(std::string_view key) const;
  bool Has(std::string_view key) const { return Find(key) != nullptr; }

  // The required forms are INVALID_ARGUMENT for an absent field; both forms are so for a value of
  // another type or outside the range.
  Result<int64_t> Int(std::string_view key, const IntRange& range = {}) const;
  Result<std::optional<int64_t>> OptionalInt(std::string_view key,
                                             const IntRange& range = {}) const;
  // Any JSON number.
  Result<double> Double(std::string_view key) const;
  Result<std::optional<double>> OptionalDouble(std::string_view key) const;
  Result<bool> Bool(std::string_view key) const;
  Result<std::optional<bool>> OptionalBool(std::string_view key) const;
  Result<std::string> String(std::string_view key) const;
  Result<std::optional<std::string>> OptionalString(std::string_view key) const;
  Result<std::vector<std::string>> StringArray(std::string_view key) const;
  Result<std::optional<std::vector<std::string>>> OptionalStringArray(std::string_view key) const;
  // A reader of the nested object; its `where` names the field.
  Result<JsonObjectReader> Object(std::string_view key) const;
  Result<std::optional<JsonObjectReader>> OptionalObject(std::string_view key) const;

  // `config.json: "key": expected EXPECTED, found VALUE`, for checks of the caller's own.
  Status Wrong(std::string_view key, std::string_view expected) const;

 private:
  Status Missing(std::string_view key, std::string_view expected) const;

  const boost::json::object* object_;
  std::string where_;
};

}  // namespace lorica::formats
