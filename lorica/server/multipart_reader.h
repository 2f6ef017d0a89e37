// multipart/form-data (RFC 7578) with the files of one adapter: a part's file name, or its field
// name where it has none, is the file's name. Pure, any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lorica/base/status.h"
#include "lorica/server/archive_file.h"

namespace lorica::server {

// The boundary of a Content-Type header; empty when it is no multipart/form-data with one.
std::string MultipartBoundary(std::string_view content_type);

// The files, with views into `bytes`. INVALID_ARGUMENT for a malformed body, DATA_LOSS for one that
// ends before its last boundary.
Result<std::vector<ArchiveFile>> ReadMultipart(std::span<const std::byte> bytes,
                                               std::string_view boundary);

}  // namespace lorica::server
