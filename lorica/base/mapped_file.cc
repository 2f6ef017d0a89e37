#include "lorica/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lorica/base/thread_priority.h"

namespace lorica {
namespace {

// Some 50 us from the system's cache of files: a read is not put off its processor in between.
constexpr size_t kReadPiece = 256 << 10;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Status SystemError(const std::string& path, const char* what) {
  const int error = errno;
  const std::string message = path + ": cannot " + what + ": " + std::strerror(error);
  return error == ENOENT || error == ENOTDIR ? NotFound(message) : Unavailable(message);
}

}  // namespace

Result<MappedFile> MappedFile::Open(const std::string& path, Mode mode, int64_t limit_bytes) {
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return SystemError(path, "open");
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return SystemError(path, "stat");
  if (!S_ISREG(info.st_mode)) {
    return InvalidArgument(path + ": expected a regular file, found " +
                           (S_ISDIR(info.st_mode) ? "a folder" : "something else"));
  }
  if (info.st_size > limit_bytes) {
    return OutOfRange(path + ": expected at most " + std::to_string(limit_bytes) +
                      " bytes, found " + std::to_string(info.st_size));
  }
  MappedFile file;
  file.path_ = path;
  file.mode_ = mode;
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return file;
  if (mode == Mode::kMap) {
    void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (data == MAP_FAILED) return SystemError(path, "map");
    file.data_ = static_cast<const std::byte*>(data);
    file.size_ = size;
    return file;
  }
  auto* data = new std::byte[size];
  file.data_ = data;
  file.size_ = size;
  size_t done = 0;
  while (done < size) {
    const size_t piece = std::min(size - done, kReadPiece);
    const ssize_t n = pread(fd.get(), data + done, piece, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError(path, "read");
    if (n == 0) {
      return DataLoss(path + ": expected " + std::to_string(size) + " bytes, found " +
                      std::to_string(done) + " (truncated while it was read)");
    }
    done += static_cast<size_t>(n);
    GiveWay();
  }
  return file;
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  if (mode_ == Mode::kMap) {
    munmap(const_cast<std::byte*>(data_), size_);
  } else {
    delete[] data_;
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mode_, other.mode_);
  return *this;
}

}  // namespace lorica
