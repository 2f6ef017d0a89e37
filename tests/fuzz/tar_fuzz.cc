// Fuzzes the reader of tar uploads. The checksum of the first header is set right, so that more
// than one input in a million gets past it.
#include <cstdint>
#include <cstdio>
#include <string>

#include "lorica/base/check.h"
#include "lorica/server/tar_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lorica;
  std::string tar(reinterpret_cast<const char*>(data), size);
  for (size_t at = 0; at + 512 <= tar.size(); at += 512) {
    unsigned sum = 8 * ' ';
    for (size_t i = 0; i < 512; ++i) {
      if (i < 148 || i >= 156) sum += static_cast<uint8_t>(tar[at + i]);
    }
    // A block of zeros is the end mark; any other may be a header.
    if (sum != 8 * ' ' && tar[at + 155] == ' ') {
      std::snprintf(tar.data() + at + 148, 8, "%06o", sum);
      tar[at + 155] = ' ';
    }
  }
  const auto bytes = std::as_bytes(std::span(tar));
  static_cast<void>(server::LooksLikeTar(bytes));
  const auto files = server::ReadTar(bytes);
  if (!files.ok()) {
    LORICA_CHECK(!files.status().message().empty());
    return 0;
  }
  LORICA_CHECK(files->size() <= server::kMostArchiveFiles);
  for (const server::ArchiveFile& file : *files) {
    LORICA_CHECK(server::CheckFileName(file.name).ok());
    LORICA_CHECK(file.bytes.empty() ||
                 (file.bytes.data() >= bytes.data() &&
                  file.bytes.data() + file.bytes.size() <= bytes.data() + bytes.size()));
  }
  return 0;
}
