// MappedFile: the bytes of a regular file, read-only, either mapped (base models, read once while
// packing) or read into memory (adapters and small files, which may change under us). The holder
// owns it; after Open any thread may read. Move-only.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lorica/base/status.h"

namespace lorica {

class MappedFile {
 public:
  enum class Mode { kMap, kRead };

  MappedFile() = default;
  // NOT_FOUND for a missing path, INVALID_ARGUMENT for what is no regular file, OUT_OF_RANGE over
  // `limit_bytes`, UNAVAILABLE with the system's reason otherwise. An empty file is legal.
  static Result<MappedFile> Open(const std::string& path, Mode mode,
                                 int64_t limit_bytes = int64_t{1} << 46);

  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  Mode mode_ = Mode::kRead;
};

}  // namespace lorica
