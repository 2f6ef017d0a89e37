// Tar archives of one adapter folder, as POSIX ustar and GNU tar write them: regular files in the
// archive's root or in one folder. Links, devices, nested folders, absolute paths and ".." are
// refused by name. Pure, any thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lorica/base/status.h"
#include "lorica/server/archive_file.h"

namespace lorica::server {

// The files, with views into `bytes`. INVALID_ARGUMENT for a malformed archive or a forbidden
// entry, DATA_LOSS for one that ends early.
Result<std::vector<ArchiveFile>> ReadTar(std::span<const std::byte> bytes);

// Whether the bytes begin as a tar archive does.
bool LooksLikeTar(std::span<const std::byte> bytes);

}  // namespace lorica::server
