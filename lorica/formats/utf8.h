// UTF-8 helpers and Utf8Stream, which turns a stream of bytes (tokens may end inside a character)
// into whole characters. Functions are pure; a Utf8Stream belongs to one stream and one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lorica::formats {

// The offset of the first byte that begins no well-formed sequence; nothing if `text` is UTF-8
// (no surrogates, no overlong forms, at most U+10FFFF).
std::optional<size_t> FindInvalidUtf8(std::string_view text);

// `bytes` with each maximal part that is not UTF-8 replaced by U+FFFD, as Unicode recommends.
std::string ReplaceInvalidUtf8(std::string_view bytes);

struct CodePoint {
  char32_t value;
  int bytes;  // 1 to 4
};
// The code point that starts at `offset` of text known to be UTF-8.
CodePoint CodePointAt(std::string_view text, size_t offset);

void AppendUtf8(char32_t code_point, std::string* out);

class Utf8Stream {
 public:
  // Takes bytes and returns the whole characters now known; an unfinished one waits. Whatever can
  // no longer become a character comes out as U+FFFD.
  std::string Push(std::string_view bytes);
  // The end of the stream: U+FFFD for an unfinished character, else "". The stream starts anew.
  std::string Flush();
  // True between characters.
  bool idle() const { return pending_.empty(); }

 private:
  std::string pending_;  // a proper prefix of a well-formed sequence, at most 3 bytes
};

}  // namespace lorica::formats
