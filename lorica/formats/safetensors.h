// SafetensorsFile: a strict reader of one .safetensors file. It owns the mapping, or borrows the
// bytes given to Parse; its views live as long as it does and have any alignment. After Open any
// thread may read. Move-only.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lorica/base/mapped_file.h"
#include "lorica/base/status.h"
#include "lorica/formats/named_tensor.h"

namespace lorica::formats {

struct SafetensorsLimits {
  int64_t file_bytes = int64_t{1} << 46;
  int64_t header_bytes = 100'000'000;  // the format's own limit
  int64_t tensors = int64_t{1} << 20;
  // For sets: metadata.total_size of an index must be the sum of the tensors' bytes. Off for base
  // models, because converters in the wild leave a stale sum there.
  bool exact_index_total = false;

  // What an adapter of a tenant may be.
  static SafetensorsLimits ForAdapter() {
    return {.file_bytes = int64_t{64} << 30,
            .header_bytes = int64_t{16} << 20,
            .tensors = int64_t{1} << 17,
            .exact_index_total = true};
  }
};

class SafetensorsFile {
 public:
  // Format: u64 little-endian header length, a JSON object, then the data. The header's tensors
  // must cover the data without a hole, an overlap or a rest. INVALID_ARGUMENT says which rule
  // broke and for which tensor, DATA_LOSS is a file shorter than its header says, UNIMPLEMENTED a
  // dtype of the format that Lorica has no use for, OUT_OF_RANGE a limit.
  static Result<SafetensorsFile> Open(const std::string& path, MappedFile::Mode mode,
                                      const SafetensorsLimits& limits = {});
  // As Open, over bytes that the caller keeps; `name` opens the messages.
  static Result<SafetensorsFile> Parse(std::span<const std::byte> bytes, std::string name,
                                       const SafetensorsLimits& limits = {});

  // In the order of the data.
  const std::vector<NamedTensor>& tensors() const { return tensors_; }
  // Null when there is none of that name.
  const TensorView* Find(std::string_view name) const;
  // The "__metadata__" strings.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& name() const { return name_; }

 private:
  SafetensorsFile() = default;
  Status ReadHeader(std::span<const std::byte> bytes, const SafetensorsLimits& limits);

  MappedFile file_;
  std::string name_;
  std::vector<NamedTensor> tensors_;
  std::vector<size_t> by_name_;  // indices into tensors_, in the order of names
  std::map<std::string, std::string> metadata_;
};

}  // namespace lorica::formats
