// A test program: encodes lines with one tokenizer, so that tools/tokenizer_oracle.py can compare.
// `tokenizer_cli PATH` with PATH a folder, a tokenizer.json or a .gguf. Each line of the input is
// two letters and the text's bytes in hexadecimal: 'a' adds special tokens, 'n' does not; 'p'
// reads the text of special tokens as tokens, 'q' does not. Each line of the output: the ids, and
// what they decode to with and without special tokens, in hexadecimal, parted by tabs.
#include <charconv>
#include <iostream>
#include <string>

#include "lorica/base/mapped_file.h"
#include "lorica/formats/gguf.h"
#include "lorica/formats/tokenizer.h"
#include "lorica/formats/tokenizer_json.h"

namespace lorica::formats {
namespace {

Result<std::shared_ptr<const Tokenizer>> Load(const std::string& path) {
  if (path.ends_with(".gguf")) {
    LORICA_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path, MappedFile::Mode::kMap));
    return LoadTokenizerGguf(file);
  }
  if (path.ends_with(".json")) {
    LORICA_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path, MappedFile::Mode::kRead));
    return ParseTokenizerJson(file.text(), {});
  }
  return LoadTokenizerFolder(path);
}

std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    int byte = 0;
    std::from_chars(hex.data() + i, hex.data() + i + 2, byte, 16);
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

std::string ToHex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const char byte : bytes) {
    hex += kDigits[static_cast<uint8_t>(byte) >> 4];
    hex += kDigits[static_cast<uint8_t>(byte) & 15];
  }
  return hex;
}

int Main(const std::string& path) {
  const auto tokenizer = Load(path);
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status().ToString() << '\n';
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    if (line.size() < 2) continue;
    const EncodeOptions options{.add_special_tokens = line[0] == 'a',
                                .parse_special = line[1] == 'p'};
    const auto ids = (*tokenizer)->Encode(FromHex(std::string_view(line).substr(2)), options);
    if (!ids.ok()) {
      std::cout << ids.status().ToString() << '\n';
      continue;
    }
    for (size_t i = 0; i < ids->size(); ++i) std::cout << (i == 0 ? "" : " ") << (*ids)[i];
    std::cout << '\t' << ToHex((*tokenizer)->Decode(*ids, {.skip_special = false})) << '\t'
              << ToHex((*tokenizer)->Decode(*ids, {.skip_special = true})) << '\n';
  }
  return 0;
}

}  // namespace
}  // namespace lorica::formats

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: tokenizer_cli PATH\n";
    return 2;
  }
  return lorica::formats::Main(argv[1]);
}
