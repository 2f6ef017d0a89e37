#include "lorica/base/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "lorica/base/mapped_file.h"

namespace lorica {
namespace {

namespace fs = std::filesystem;

Status Failed(const std::string& what, const std::string& path, int error) {
  std::string message = path + ": cannot " + what + ": " + std::strerror(error);
  switch (error) {
    case ENOENT:
      return NotFound(std::move(message));
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return ResourceExhausted(std::move(message));
    default:
      return Unavailable(std::move(message));
  }
}

class PosixFile : public FileSystem::File {
 public:
  PosixFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~PosixFile() override { close(fd_); }

  Status Append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return Failed("write", path_, errno);
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return OkStatus();
  }
  Status Sync() override { return fsync(fd_) == 0 ? OkStatus() : Failed("sync", path_, errno); }

 private:
  const int fd_;
  const std::string path_;
};

class PosixFileSystem : public FileSystem {
 public:
  Result<std::unique_ptr<File>> Create(const std::string& path) override {
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return Failed("create", path, errno);
    return std::unique_ptr<File>(std::make_unique<PosixFile>(fd, path));
  }
  Result<std::string> Read(const std::string& path, int64_t limit) override {
    LORICA_ASSIGN_OR_RETURN(const MappedFile file,
                            MappedFile::Open(path, MappedFile::Mode::kRead, limit));
    return std::string(file.text());
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return rename(from.c_str(), to.c_str()) == 0 ? OkStatus() : Failed("rename", from, errno);
  }
  Status SyncFolder(const std::string& path) override {
    const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return Failed("open", path, errno);
    const int error = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    return error == 0 ? OkStatus() : Failed("sync", path, error);
  }
  Status MakeFolder(const std::string& path) override {
    if (mkdir(path.c_str(), 0700) == 0) return OkStatus();
    const int error = errno;
    std::error_code ignored;
    if (error == EEXIST && fs::is_directory(path, ignored)) return OkStatus();
    return Failed("make the folder", path, error);
  }
  Status Remove(const std::string& path) override {
    std::error_code error;
    fs::remove_all(path, error);
    return error ? Failed("remove", path, error.value()) : OkStatus();
  }
  Result<std::vector<std::string>> List(const std::string& path) override {
    std::error_code error;
    std::vector<std::string> names;
    for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
      names.push_back(it->path().filename().string());
    }
    if (error) return Failed("list", path, error.value());
    std::sort(names.begin(), names.end());
    return names;
  }
  bool Exists(const std::string& path) override {
    std::error_code ignored;
    return fs::exists(path, ignored);
  }
};

}  // namespace

std::unique_ptr<FileSystem> MakePosixFileSystem() { return std::make_unique<PosixFileSystem>(); }

}  // namespace lorica
