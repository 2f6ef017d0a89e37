// FileIdentity: what tells, without reading them, whether an adapter's files are those that were
// read before: name, device, inode, size, mtime and ctime of each. A value; the functions read
// the file system and keep no state.
#pragma once

#include <string>

#include "lorica/base/status.h"
#include "lorica/formats/sha256.h"

namespace lorica::lora {

// Equal: the files are as they were, as far as the file system says. Unequal: the content has to
// be read again to know.
struct FileIdentity {
  formats::Sha256Digest digest{};
  bool operator==(const FileIdentity&) const = default;
};

// Of the direct regular files of a folder, links followed, or of one file. NOT_FOUND for a path
// that is not there.
Result<FileIdentity> ReadFileIdentity(const std::string& path);

}  // namespace lorica::lora
