#include "lorica/formats/byte_level.h"

#include <array>

#include "lorica/formats/utf8.h"

namespace lorica::formats {
namespace {

constexpr int kAlphabetEnd = 0x144;

struct Alphabet {
  std::array<uint16_t, 256> character{};
  std::array<int16_t, kAlphabetEnd> byte{};
};

// Printable Latin-1 stands for itself; the others follow from U+0100 on in the order of bytes.
constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet;
  for (auto& byte : alphabet.byte) byte = -1;
  uint16_t next = 0x100;
  for (uint16_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    const uint16_t character = printable ? byte : next++;
    alphabet.character[byte] = character;
    alphabet.byte[character] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();
static_assert(kAlphabet.character[' '] == 0x120 && kAlphabet.byte[kAlphabetEnd - 1] == 0xAD);

}  // namespace

char32_t ByteLevelChar(uint8_t byte) { return kAlphabet.character[byte]; }

std::optional<std::string> ByteLevelToBytes(std::string_view spelling) {
  std::string bytes;
  bytes.reserve(spelling.size());
  for (size_t offset = 0; offset < spelling.size();) {
    const CodePoint point = CodePointAt(spelling, offset);
    if (point.value >= kAlphabetEnd || kAlphabet.byte[point.value] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte[point.value]));
    offset += static_cast<size_t>(point.bytes);
  }
  return bytes;
}

std::string BytesToByteLevel(std::string_view bytes) {
  std::string spelling;
  for (const char byte : bytes) AppendUtf8(ByteLevelChar(static_cast<uint8_t>(byte)), &spelling);
  return spelling;
}

}  // namespace lorica::formats
