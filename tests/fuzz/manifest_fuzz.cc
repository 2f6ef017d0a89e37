// Fuzzes the manifest of the state folder. Each line is also tried behind a right checksum; what is
// read and written again reads the same.
#include <cstdint>
#include <string>
#include <string_view>

#include "lorica/base/check.h"
#include "lorica/formats/sha256.h"
#include "lorica/server/adapter_state.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lorica;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  std::string sealed;
  for (size_t at = 0; at < input.size();) {
    const size_t end = std::min(input.find('\n', at), input.size());
    const std::string_view line = input.substr(at, end - at);
    sealed += formats::Sha256Hex(line).substr(0, 16) + " " + std::string(line) + "\n";
    at = end + 1;
  }
  for (const std::string_view text : {input, std::string_view(sealed)}) {
    std::vector<std::string> damaged;
    const server::Manifest manifest = server::ReadManifest(text, &damaged);
    for (const auto& [name, entry] : manifest.entries) {
      LORICA_CHECK(name == entry.name && entry.digest.size() == 64);
      LORICA_CHECK(entry.digest.find_first_not_of("0123456789abcdef") == std::string::npos);
    }
    damaged.clear();
    LORICA_CHECK(server::ReadManifest(server::WriteManifest(manifest), &damaged) == manifest);
    LORICA_CHECK(damaged.empty());
  }
  return 0;
}
