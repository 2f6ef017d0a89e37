#include "lorica/formats/utf8.h"

#include <algorithm>

#include "lorica/base/check.h"

namespace lorica::formats {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

enum class Form { kWhole, kUnfinished, kBad };
struct Sequence {
  Form form;
  size_t bytes;  // of the whole sequence, of the unfinished prefix, or of the bad maximal part
};

// The sequence at the start of non-empty `text`, by table 3-7 of the Unicode standard: only the
// second byte has a range of its own.
Sequence ReadSequence(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {Form::kWhole, 1};
  size_t length = 0;
  if (lead >= 0xC2 && lead <= 0xDF) length = 2;
  if (lead >= 0xE0 && lead <= 0xEF) length = 3;
  if (lead >= 0xF0 && lead <= 0xF4) length = 4;
  if (length == 0) return {Form::kBad, 1};
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Form::kUnfinished, i};
    if (byte(i) < low || byte(i) > high) return {Form::kBad, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Form::kWhole, length};
}

// Appends the characters of `bytes` to `out` and returns the offset of an unfinished one at the
// end (bytes.size() if there is none).
size_t AppendWhole(std::string_view bytes, std::string* out) {
  size_t offset = 0;
  while (offset < bytes.size()) {
    const Sequence sequence = ReadSequence(bytes.substr(offset));
    if (sequence.form == Form::kUnfinished) break;
    if (sequence.form == Form::kWhole) {
      out->append(bytes.substr(offset, sequence.bytes));
    } else {
      out->append(kReplacement);
    }
    offset += sequence.bytes;
  }
  return offset;
}

}  // namespace

std::optional<size_t> FindInvalidUtf8(std::string_view text) {
  for (size_t offset = 0; offset < text.size();) {
    const Sequence sequence = ReadSequence(text.substr(offset));
    if (sequence.form != Form::kWhole) return offset;
    offset += sequence.bytes;
  }
  return std::nullopt;
}

std::string ReplaceInvalidUtf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  if (AppendWhole(bytes, &out) < bytes.size()) out.append(kReplacement);
  return out;
}

CodePoint CodePointAt(std::string_view text, size_t offset) {
  LORICA_DCHECK(offset < text.size());
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[offset + i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const int length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t value = lead & (0x7Fu >> length);
  for (int i = 1; i < length; ++i) value = value << 6 | (byte(static_cast<size_t>(i)) & 0x3Fu);
  return {value, length};
}

void AppendUtf8(char32_t code_point, std::string* out) {
  const auto tail = [&](int shift) {
    out->push_back(static_cast<char>(0x80 | (code_point >> shift & 0x3F)));
  };
  if (code_point < 0x80) {
    out->push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out->push_back(static_cast<char>(0xC0 | code_point >> 6));
    tail(0);
  } else if (code_point < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | code_point >> 12));
    tail(6);
    tail(0);
  } else {
    out->push_back(static_cast<char>(0xF0 | code_point >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string Utf8Stream::Push(std::string_view bytes) {
  std::string joined = std::move(pending_);
  joined.append(bytes);
  std::string out;
  out.reserve(joined.size());
  const size_t end = AppendWhole(joined, &out);
  pending_ = joined.substr(end);
  return out;
}

std::string Utf8Stream::Flush() {
  const bool unfinished = !pending_.empty();
  pending_.clear();
  return std::string(unfinished ? kReplacement : "");
}

}  // namespace lorica::formats
