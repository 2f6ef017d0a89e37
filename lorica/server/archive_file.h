// ArchiveFile: one file of an upload, and what every upload must keep to. The bytes belong to the
// upload's own buffer. Values and a pure function, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lorica/base/status.h"

namespace lorica::server {

struct ArchiveFile {
  std::string name;  // a plain file name
  std::span<const std::byte> bytes;
};

inline constexpr size_t kMostArchiveFiles = 64;

// INVALID_ARGUMENT for what is no plain file name: empty, ".", "..", with a slash, a backslash or a
// control byte, or longer than 255 bytes.
Status CheckFileName(std::string_view name);
// Adds `file`, whose name has to be plain and new. OUT_OF_RANGE over kMostArchiveFiles.
Status AddArchiveFile(ArchiveFile file, std::vector<ArchiveFile>* files);

}  // namespace lorica::server
