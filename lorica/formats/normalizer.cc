#include "lorica/formats/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "lorica/base/check.h"
#include "lorica/formats/utf8.h"

namespace lorica::formats {
namespace {

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

int CombiningClass(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

std::vector<utf8proc_int32_t> Decompose(std::string_view text) {
  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size());
  for (size_t offset = 0; offset < text.size();) {
    const CodePoint point = CodePointAt(text, offset);
    offset += static_cast<size_t>(point.bytes);
    std::array<utf8proc_int32_t, 32> parts;
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(point.value), parts.data(),
        static_cast<utf8proc_ssize_t>(parts.size()), UTF8PROC_DECOMPOSE, nullptr);
    // The longest canonical decomposition has four code points.
    LORICA_CHECK(count >= 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()));
    points.insert(points.end(), parts.begin(), parts.begin() + count);
  }
  return points;
}

// Canonical order: a run of marks is sorted by class, stably. utf8proc's own sort is quadratic in
// the run, which a request must not be able to use.
void OrderMarks(std::vector<utf8proc_int32_t>* points) {
  for (auto run = points->begin(); run != points->end();) {
    if (CombiningClass(*run) == 0) {
      ++run;
      continue;
    }
    const auto end =
        std::find_if(run, points->end(), [](utf8proc_int32_t p) { return CombiningClass(p) == 0; });
    std::stable_sort(run, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return CombiningClass(a) < CombiningClass(b);
    });
    run = end;
  }
}

std::string Nfc(std::string_view text) {
  std::vector<utf8proc_int32_t> points = Decompose(text);
  OrderMarks(&points);
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  const utf8proc_ssize_t count = utf8proc_normalize_utf32(
      points.data(), static_cast<utf8proc_ssize_t>(points.size()), options);
  LORICA_CHECK(count >= 0);
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    AppendUtf8(static_cast<char32_t>(points[static_cast<size_t>(i)]), &out);
  }
  return out;
}

}  // namespace

std::string Normalize(Normalizer normalizer, std::string_view text) {
  if (normalizer == Normalizer::kNone || IsAscii(text)) return std::string(text);
  return Nfc(text);
}

}  // namespace lorica::formats
