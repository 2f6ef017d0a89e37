// Fuzzes multipart uploads: the header's value up to the first zero byte, then the body.
#include <cstdint>
#include <string_view>

#include "lorica/base/check.h"
#include "lorica/server/multipart_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lorica;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  std::string boundary = server::MultipartBoundary(input.substr(0, zero));
  if (boundary.empty()) boundary = "XX";
  const std::string_view body = zero == std::string_view::npos ? input : input.substr(zero + 1);
  const auto bytes = std::as_bytes(std::span(body.data(), body.size()));
  const auto files = server::ReadMultipart(bytes, boundary);
  if (!files.ok()) {
    LORICA_CHECK(!files.status().message().empty());
    return 0;
  }
  LORICA_CHECK(files->size() <= server::kMostArchiveFiles);
  for (const server::ArchiveFile& file : *files) {
    LORICA_CHECK(server::CheckFileName(file.name).ok());
    LORICA_CHECK(file.bytes.data() >= bytes.data() &&
                 file.bytes.data() + file.bytes.size() <= bytes.data() + bytes.size());
  }
  return 0;
}
