#include "lorica/formats/model_files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "lorica/formats/json.h"

namespace lorica::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".safetensors";
constexpr int64_t kIndexBytes = int64_t{64} << 20;

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// What the folder holds instead, as the end of a message; empty when nothing is known.
std::string Hint(const std::string& folder, const std::string& stem) {
  for (const std::string& pickle :
       {stem + ".bin", stem + ".pt", stem + ".pth", std::string("pytorch_model.bin"),
        std::string("pytorch_model.bin.index.json")}) {
    if (Exists(folder + "/" + pickle)) {
      return "; " + pickle + " holds pickled weights: convert them to safetensors";
    }
  }
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(stem + "-") && name.ends_with(kSuffix)) {
      return "; " + name + " is a shard, whose index is missing";
    }
  }
  return "";
}

// A shard lies in the folder of its index, whatever the index says.
Status CheckShardName(const std::string& tensor, const std::string& file) {
  const bool plain = file.size() > kSuffix.size() && file.ends_with(kSuffix) &&
                     file.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  if (plain) return OkStatus();
  return InvalidArgument("weight_map: \"" + tensor +
                         "\": expected the plain name of a .safetensors file, found \"" + file +
                         "\"");
}

struct ShardIndex {
  std::map<std::string, std::string> shard_of;  // by tensor
  std::set<std::string> shards;
  std::optional<double> total_bytes;
};

Result<ShardIndex> ReadIndex(const std::string& path, const SafetensorsLimits& limits) {
  LORICA_ASSIGN_OR_RETURN(
      const boost::json::value json,
      ReadJsonFile(path, {.bytes = kIndexBytes, .depth = 8, .values = 2 * limits.tensors + 1024}));
  LORICA_ASSIGN_OR_RETURN(const JsonObjectReader root, JsonObjectReader::Of(json, path));
  LORICA_ASSIGN_OR_RETURN(const JsonObjectReader map, root.Object("weight_map"));
  ShardIndex index;
  for (const auto& field : map.object()) {
    if (!field.value().is_string()) return map.Wrong(field.key(), "the name of a file");
    const std::string tensor(field.key());
    std::string file(field.value().get_string());
    LORICA_RETURN_IF_ERROR(CheckShardName(tensor, file).WithContext(path));
    index.shards.insert(file);
    index.shard_of.emplace(tensor, std::move(file));
  }
  if (index.shard_of.empty()) return map.Wrong("weight_map", "at least one tensor");
  LORICA_ASSIGN_OR_RETURN(const auto metadata, root.OptionalObject("metadata"));
  if (metadata) {
    LORICA_ASSIGN_OR_RETURN(index.total_bytes, metadata->OptionalDouble("total_size"));
  }
  return index;
}

}  // namespace

Result<SafetensorsSet> SafetensorsSet::Open(const std::string& folder, const std::string& stem,
                                            MappedFile::Mode mode,
                                            const SafetensorsLimits& limits) {
  const std::string single = folder + "/" + stem + std::string(kSuffix);
  const std::string index = single + ".index.json";
  SafetensorsSet set;
  if (Exists(single)) {
    LORICA_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(single, mode, limits));
    set.files_.push_back(std::move(file));
    set.IndexTensors();
  } else if (Exists(index)) {
    LORICA_RETURN_IF_ERROR(set.OpenIndexed(folder, index, mode, limits));
  } else {
    const std::string name = stem + std::string(kSuffix);
    return NotFound(folder + ": expected " + name + " or " + name + ".index.json, found neither" +
                    Hint(folder, stem));
  }
  return set;
}

Status SafetensorsSet::OpenIndexed(const std::string& folder, const std::string& index_path,
                                   MappedFile::Mode mode, const SafetensorsLimits& limits) {
  LORICA_ASSIGN_OR_RETURN(const ShardIndex index, ReadIndex(index_path, limits));
  int64_t total = 0;
  for (const std::string& shard : index.shards) {
    LORICA_ASSIGN_OR_RETURN(SafetensorsFile file,
                            SafetensorsFile::Open(folder + "/" + shard, mode, limits));
    for (const NamedTensor& tensor : file.tensors()) {
      const auto named = index.shard_of.find(tensor.name);
      if (named == index.shard_of.end() || named->second != shard) {
        return InvalidArgument(index_path + ": expected tensor \"" + tensor.name + "\" " +
                               (named == index.shard_of.end() ? "nowhere" : "in " + named->second) +
                               ", found it in " + shard);
      }
      total += tensor.view.bytes();
    }
    files_.push_back(std::move(file));
  }
  IndexTensors();
  // No tensor is in a shard that it should not be in, so one that is found is in the right one.
  for (const auto& [tensor, shard] : index.shard_of) {
    if (Find(tensor) == nullptr) {
      return InvalidArgument(index_path + ": expected tensor \"" + tensor + "\" in " + shard +
                             ", found no such tensor there");
    }
  }
  if (index.total_bytes && *index.total_bytes != static_cast<double>(total)) {
    const std::string message = index_path + ": expected a total_size of " + std::to_string(total) +
                                ", the sum of the tensors, found another";
    if (limits.exact_index_total) return InvalidArgument(message);
    warnings_.push_back(message);
  }
  return OkStatus();
}

void SafetensorsSet::IndexTensors() {
  for (const SafetensorsFile& file : files_) {
    for (const NamedTensor& tensor : file.tensors()) tensors_.push_back(&tensor);
  }
  std::sort(tensors_.begin(), tensors_.end(),
            [](const NamedTensor* a, const NamedTensor* b) { return a->name < b->name; });
}

const TensorView* SafetensorsSet::Find(std::string_view name) const {
  const auto found =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const NamedTensor* t, std::string_view n) { return t->name < n; });
  if (found == tensors_.end() || (*found)->name != name) return nullptr;
  return &(*found)->view;
}

}  // namespace lorica::formats
