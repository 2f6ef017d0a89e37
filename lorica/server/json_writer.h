// JsonWriter: writes JSON text front to back. Boost.JSON reads our input, but prints 0.5 as 5E-1
// and knows no shortest float32, and a log-probability must come back to the same bits. One
// thread, one text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lorica::server {

class JsonWriter {
 public:
  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  JsonWriter& EndArray();
  JsonWriter& Key(std::string_view key);

  // `text` must be UTF-8.
  JsonWriter& String(std::string_view text);
  JsonWriter& StringOrNull(std::string_view text);  // null when empty
  JsonWriter& Int(int64_t value);
  // The shortest decimal that reads back to the same float; null when not finite.
  JsonWriter& Float(float value);
  JsonWriter& Bool(bool value);
  JsonWriter& Null();
  // A value that is JSON already.
  JsonWriter& Raw(std::string_view json);

  std::string Take() { return std::move(out_); }

 private:
  void Comma();

  std::string out_;
  bool need_comma_ = false;
};

}  // namespace lorica::server
