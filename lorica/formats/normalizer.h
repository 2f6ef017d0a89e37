// What a tokenizer does to text before it splits it: nothing, or Unicode's NFC. Pure functions,
// safe on any thread.
#pragma once

#include <string>
#include <string_view>

#include "lorica/base/status.h"

namespace lorica::formats {

enum class Normalizer { kNone, kNfc };

// `text` is UTF-8. Time is O(n log n), also for long runs of combining marks.
std::string Normalize(Normalizer normalizer, std::string_view text);

}  // namespace lorica::formats
