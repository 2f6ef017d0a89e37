// The alphabet of byte-level BPE: each of the 256 bytes is spelt as one printable character in
// tokenizer files (GPT-2's table: ' ' is "Ġ", '\n' is "Ċ"). Pure functions, safe on any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lorica::formats {

// The character that stands for `byte`, U+0021 to U+0143.
char32_t ByteLevelChar(uint8_t byte);

// The bytes that `spelling` (UTF-8) stands for; nothing if a character is not of the alphabet.
std::optional<std::string> ByteLevelToBytes(std::string_view spelling);

// The spelling of any bytes.
std::string BytesToByteLevel(std::string_view bytes);

}  // namespace lorica::formats
