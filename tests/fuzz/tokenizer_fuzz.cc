// Fuzzes the reader of tokenizer.json, and Encode and Decode with whatever it accepts. The input
// is the file up to the first NUL, then the text; without a NUL all of it is the file and its own
// bytes are the text. Whatever comes, ids must be in range and streamed text must equal Decode's.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lorica/base/check.h"
#include "lorica/formats/tokenizer.h"
#include "lorica/formats/tokenizer_json.h"
#include "lorica/formats/utf8.h"

namespace {

using lorica::formats::Tokenizer;

void EncodeAndDecode(const Tokenizer& tokenizer, std::string_view text) {
  for (const bool special : {false, true}) {
    const auto ids =
        tokenizer.Encode(text, {.add_special_tokens = special, .parse_special = special});
    if (!ids.ok()) continue;
    lorica::formats::Utf8Stream stream;
    std::string streamed;
    for (const int32_t id : *ids) {
      LORICA_CHECK(id >= 0 && id < tokenizer.vocab_size());
      streamed += stream.Push(tokenizer.TokenBytes(id));
    }
    streamed += stream.Flush();
    LORICA_CHECK(streamed == tokenizer.Decode(*ids, {.skip_special = false}));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t nul = input.find('\0');
  const std::string_view file = input.substr(0, nul);
  std::string text(nul == std::string_view::npos ? input : input.substr(nul + 1));
  const auto tokenizer = lorica::formats::ParseTokenizerJson(file, {});
  if (!tokenizer.ok()) return 0;
  EncodeAndDecode(**tokenizer, text);
  EncodeAndDecode(**tokenizer, lorica::formats::ReplaceInvalidUtf8(text));
  return 0;
}
