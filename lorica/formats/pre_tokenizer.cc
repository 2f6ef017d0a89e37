#include "lorica/formats/pre_tokenizer.h"

#include <utf8proc.h>

#include <algorithm>

#include "lorica/base/check.h"
#include "lorica/formats/utf8.h"

namespace lorica::formats {
namespace {

using Spans = std::vector<SplitSpan>;

// What `behavior` makes of alternating matches and gaps: the spans to keep, as the reference folds
// them.
Spans Apply(SplitBehavior behavior, Spans spans) {
  Spans kept;
  bool previous_match = false;
  switch (behavior) {
    case SplitBehavior::kIsolated:
      return spans;
    case SplitBehavior::kRemoved:
      std::erase_if(spans, [](const SplitSpan& span) { return span.match; });
      return spans;
    case SplitBehavior::kContiguous:
      for (const SplitSpan& span : spans) {
        if (span.match == previous_match && !kept.empty()) {
          kept.back().end = span.end;
        } else {
          kept.push_back(span);
        }
        previous_match = span.match;
      }
      return kept;
    case SplitBehavior::kMergedWithPrevious:
      for (const SplitSpan& span : spans) {
        if (span.match && !previous_match && !kept.empty()) {
          kept.back().end = span.end;
        } else {
          kept.push_back(span);
        }
        previous_match = span.match;
      }
      return kept;
    case SplitBehavior::kMergedWithNext:
      std::reverse(spans.begin(), spans.end());
      for (const SplitSpan& span : spans) {
        if (span.match && !previous_match && !kept.empty()) {
          kept.back().begin = span.begin;
        } else {
          kept.push_back(span);
        }
        previous_match = span.match;
      }
      std::reverse(kept.begin(), kept.end());
      return kept;
  }
  return kept;
}

bool IsNumeric(char32_t code_point) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_NO;
}

void CutNumeric(std::string_view text, Spans* spans) {
  spans->clear();
  size_t gap = 0;
  for (size_t offset = 0; offset < text.size();) {
    const CodePoint point = CodePointAt(text, offset);
    const size_t end = offset + static_cast<size_t>(point.bytes);
    if (IsNumeric(point.value)) {
      if (gap != offset) spans->push_back({gap, offset, false});
      spans->push_back({offset, end, true});
      gap = end;
    }
    offset = end;
  }
  if (gap != text.size()) spans->push_back({gap, text.size(), false});
}

// Replaces each range by what `cut` makes of it.
template <typename CutFunction>
Status Refine(SplitBehavior behavior, const CutFunction& cut, Words* words) {
  std::vector<Words::Range> refined;
  Spans spans;
  for (size_t i = 0; i < words->ranges.size(); ++i) {
    LORICA_RETURN_IF_ERROR(cut(words->word(i), &spans));
    const size_t base = words->ranges[i].begin;
    spans = Apply(behavior, std::move(spans));
    for (const SplitSpan& span : spans) {
      if (span.begin < span.end) refined.push_back({base + span.begin, base + span.end});
    }
  }
  words->ranges = std::move(refined);
  return OkStatus();
}

Status Run(const SplitStep& step, Words* words) {
  const auto cut = [&](std::string_view piece, Spans* spans) -> Status {
    LORICA_RETURN_IF_ERROR(step.pattern.Cut(piece, spans));
    if (step.invert) {
      for (SplitSpan& span : *spans) span.match = !span.match;
    }
    return OkStatus();
  };
  return Refine(step.behavior, cut, words);
}

Status Run(const DigitsStep& step, Words* words) {
  const auto cut = [](std::string_view piece, Spans* spans) {
    CutNumeric(piece, spans);
    return OkStatus();
  };
  return Refine(step.individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, cut,
                words);
}

Status Run(const PrefixSpaceStep&, Words* words) {
  std::string text;
  text.reserve(words->text.size() + words->ranges.size());
  for (size_t i = 0; i < words->ranges.size(); ++i) {
    const std::string_view word = words->word(i);
    const size_t begin = text.size();
    if (!word.starts_with(' ')) text += ' ';
    text += word;
    words->ranges[i] = {begin, text.size()};
  }
  words->text = std::move(text);
  return OkStatus();
}

}  // namespace

SplitStep Gpt2Split() {
  auto pattern = SplitPattern::Compile(
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)");
  LORICA_CHECK(pattern.ok());
  return {*std::move(pattern), SplitBehavior::kIsolated, false};
}

Result<Words> PreTokenizer::Cut(std::string_view text) const {
  Words words;
  if (text.empty()) return words;
  words.text = text;
  words.ranges.push_back({0, text.size()});
  for (const Step& step : steps_) {
    LORICA_RETURN_IF_ERROR(std::visit([&](const auto& s) { return Run(s, &words); }, step));
  }
  return words;
}

}  // namespace lorica::formats
