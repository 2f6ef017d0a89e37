// FileSystem: the few operations that durable state is made of, behind an interface so that a test
// can lose what was not synced. PosixFileSystem is the real one; both keep no lock of their own,
// any thread may call. A path is absolute or relative to the working folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lorica/base/status.h"

namespace lorica {

class FileSystem {
 public:
  // Closed by its destructor; what was not synced may be lost in a crash.
  class File {
   public:
    virtual ~File() = default;
    // RESOURCE_EXHAUSTED on a full disk.
    virtual Status Append(std::span<const std::byte> bytes) = 0;
    virtual Status Sync() = 0;
  };

  virtual ~FileSystem() = default;
  // An empty file for writing, in place of what was there.
  virtual Result<std::unique_ptr<File>> Create(const std::string& path) = 0;
  // NOT_FOUND for a path that is not there, OUT_OF_RANGE over `limit` bytes.
  virtual Result<std::string> Read(const std::string& path, int64_t limit) = 0;
  // A file or a folder; an existing file at `to` is replaced at once.
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  // Makes the names in a folder durable: after Create, Rename and Remove in it.
  virtual Status SyncFolder(const std::string& path) = 0;
  // One that is there already is fine.
  virtual Status MakeFolder(const std::string& path) = 0;
  // With all that is in it; one that is not there is fine. Follows no link.
  virtual Status Remove(const std::string& path) = 0;
  // Names in a folder, ascending.
  virtual Result<std::vector<std::string>> List(const std::string& path) = 0;
  virtual bool Exists(const std::string& path) = 0;
};

std::unique_ptr<FileSystem> MakePosixFileSystem();

}  // namespace lorica
