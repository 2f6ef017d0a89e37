// SafetensorsSet: all tensors of a folder under one Find(), from STEM.safetensors or from the
// shards that STEM.safetensors.index.json names. Owns its files; after Open any thread may read.
// Move-only.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lorica/base/mapped_file.h"
#include "lorica/base/status.h"
#include "lorica/formats/safetensors.h"

namespace lorica::formats {

class SafetensorsSet {
 public:
  // `stem` is "model" or "adapter_model". The single file wins where both are. NOT_FOUND when the
  // folder has neither, with a hint when it holds pickled weights or shards without an index.
  // With an index, every tensor lies in exactly the shard that it names and shards hold no other
  // tensor, else INVALID_ARGUMENT; shard names with a separator are refused.
  static Result<SafetensorsSet> Open(const std::string& folder, const std::string& stem,
                                     MappedFile::Mode mode, const SafetensorsLimits& limits = {});

  // Null when there is none of that name.
  const TensorView* Find(std::string_view name) const;
  // Of all files, by name.
  const std::vector<const NamedTensor*>& tensors() const { return tensors_; }
  const std::vector<SafetensorsFile>& files() const { return files_; }
  // Oddities that do not change what is loaded, one sentence each.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  SafetensorsSet() = default;
  Status OpenIndexed(const std::string& folder, const std::string& index_path,
                     MappedFile::Mode mode, const SafetensorsLimits& limits);
  void IndexTensors();

  std::vector<SafetensorsFile> files_;
  std::vector<const NamedTensor*> tensors_;  // into files_, in the order of names
  std::vector<std::string> warnings_;
};

}  // namespace lorica::formats
