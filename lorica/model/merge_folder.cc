#include "lorica/model/merge_folder.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "lorica/base/file_system.h"
#include "lorica/formats/json.h"
#include "lorica/formats/model_files.h"
#include "lorica/lora/module_map.h"
#include "lorica/model/hf_config.h"
#include "lorica/model/merged_rows.h"
#include "lorica/model/model_source.h"

namespace lorica::model {
namespace {

namespace fs = std::filesystem;
using formats::NamedTensor;

constexpr std::string_view kWeight = ".weight";
constexpr int64_t kCopyLimit = int64_t{1} << 30;  // of each small file

// The site of a tensor's name; nothing for what is no linear of a layer.
std::optional<lora::SiteId> SiteOf(const std::string& name, lora::SiteSpace sites) {
  if (!name.ends_with(kWeight)) return std::nullopt;
  const lora::ModuleMap map = lora::MapModules({name.substr(0, name.size() - kWeight.size())});
  const std::optional<lora::LinearName>& linear = map.linears.front();
  if (!linear || linear->layer >= sites.layers) return std::nullopt;
  return sites.Linear(linear->layer, linear->projection);
}

std::string_view TypeName(DType type) {
  return type == DType::kF32 ? "F32" : type == DType::kBF16 ? "BF16" : "F16";
}

DType OutputType(const TensorView& view, MergedType type) {
  return type == MergedType::kKeep ? view.dtype : DType::kF32;
}

// A tensor of the folder that is written.
struct OutputTensor {
  std::string name;
  Shape shape;
  DType type = DType::kF32;
  std::unique_ptr<TensorRows> base;
  const lora::SiteFactors* factors = nullptr;  // what is added to it
};

// u64 length, then the JSON that names each tensor's type, shape and place.
std::string Header(const std::vector<OutputTensor>& tensors) {
  boost::json::object object;
  object["__metadata__"] = {{"format", "pt"}};
  int64_t at = 0;
  for (const OutputTensor& tensor : tensors) {
    const int64_t bytes = ElementsToBytes(tensor.type, tensor.base->n() * tensor.base->k());
    boost::json::array shape(tensor.shape.begin(), tensor.shape.end());
    object[tensor.name] = {{"dtype", TypeName(tensor.type)},
                           {"shape", std::move(shape)},
                           {"data_offsets", boost::json::array{at, at + bytes}}};
    at += bytes;
  }
  std::string json = boost::json::serialize(object);
  json.append((8 - json.size() % 8) % 8, ' ');
  const uint64_t size = json.size();
  std::string header(sizeof(size), '\0');
  std::memcpy(header.data(), &size, sizeof(size));
  return header + json;
}

Status WriteRow(std::span<const float> row, DType type, FileSystem::File* file) {
  if (type == DType::kF32) return file->Append(std::as_bytes(row));
  std::vector<uint16_t> halves(row.size());
  std::transform(row.begin(), row.end(), halves.begin(), [type](float value) {
    return type == DType::kBF16 ? F32ToBf16(value) : F32ToF16(value);
  });
  return file->Append(std::as_bytes(std::span(halves)));
}

Status WriteTensor(const OutputTensor& tensor, FileSystem::File* file) {
  std::optional<MergedRows> merged;
  if (tensor.factors != nullptr) merged.emplace(tensor.base.get(), *tensor.factors);
  const kernels::RowSource& rows =
      merged ? static_cast<const kernels::RowSource&>(*merged) : *tensor.base;
  std::vector<float> row(static_cast<size_t>(rows.k()));
  for (int64_t n = 0; n < rows.n(); ++n) {
    rows.ReadRow(n, row);
    if (!std::all_of(row.begin(), row.end(), [](float value) { return std::isfinite(value); })) {
      return InvalidArgument(tensor.name + ": row " + std::to_string(n) +
                             " of the merged weight is not finite");
    }
    LORICA_RETURN_IF_ERROR(WriteRow(row, tensor.type, file));
  }
  return OkStatus();
}

Status WriteWeights(const std::vector<OutputTensor>& tensors, const lora::Adapter& adapter,
                    FileSystem::File* file) {
  const std::string header = Header(tensors);
  LORICA_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(header))));
  size_t merged = 0;
  for (const OutputTensor& tensor : tensors) {
    merged += tensor.factors != nullptr ? 1 : 0;
    LORICA_RETURN_IF_ERROR(WriteTensor(tensor, file));
  }
  // Never a silent no-op.
  if (merged == adapter.sites().size()) return OkStatus();
  return Internal("the adapter acts on " + std::to_string(adapter.sites().size()) +
                  " linears and the model names " + std::to_string(merged) + " of them");
}

std::vector<OutputTensor> FolderTensors(const formats::SafetensorsSet& set,
                                        const lora::SiteSpace& sites, const lora::Adapter& adapter,
                                        MergedType type) {
  std::vector<OutputTensor> tensors;
  for (const NamedTensor* tensor : set.tensors()) {
    const std::optional<lora::SiteId> site = SiteOf(tensor->name, sites);
    tensors.push_back({tensor->name, tensor->view.shape, OutputType(tensor->view, type),
                       std::make_unique<TensorRows>(tensor->view, 0),
                       site ? FindFactors(adapter, *site) : nullptr});
  }
  return tensors;
}

// Of a GGUF file, under their Hugging Face names and in that order of rows, in f32.
Result<std::vector<OutputTensor>> GgufTensors(ModelSource* source, const lora::Adapter& adapter) {
  std::vector<OutputTensor> tensors;
  for (const NamedShape& named : TensorsOf(source->config())) {
    LORICA_ASSIGN_OR_RETURN(auto rows, source->Take(named.name, named.shape));
    const std::optional<lora::SiteId> site = SiteOf(named.name, {source->config().layers});
    tensors.push_back({named.name, named.shape, DType::kF32, std::move(rows),
                       site ? FindFactors(adapter, *site) : nullptr});
  }
  return tensors;
}

Status WriteText(FileSystem* files, const std::string& path, std::string_view text) {
  LORICA_ASSIGN_OR_RETURN(const std::unique_ptr<FileSystem::File> file, files->Create(path));
  LORICA_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(text))));
  return file->Sync();
}

Status CopySmallFiles(FileSystem* files, const std::string& from, const std::string& to,
                      MergedType type) {
  LORICA_ASSIGN_OR_RETURN(const std::vector<std::string> names, files->List(from));
  for (const std::string& name : names) {
    const std::string path = from + "/" + name;
    std::error_code error;
    const bool weights = name.ends_with(".safetensors") || name.ends_with(".bin") ||
                         name.ends_with(".index.json") || name.ends_with(".gguf");
    if (weights || name.starts_with('.') || !fs::is_regular_file(path, error)) continue;
    LORICA_ASSIGN_OR_RETURN(std::string text, files->Read(path, kCopyLimit));
    if (name == "config.json" && type == MergedType::kFloat32) {
      LORICA_ASSIGN_OR_RETURN(boost::json::value config, formats::ReadJsonFile(path));
      config.as_object().erase("dtype");
      config.as_object()["torch_dtype"] = "float32";
      text = boost::json::serialize(config);
    }
    LORICA_RETURN_IF_ERROR(WriteText(files, to + "/" + name, text));
  }
  return OkStatus();
}

}  // namespace

Status MergeFolder(const std::string& model_path, const Model& model, const lora::Adapter& adapter,
                   MergedType type, const std::string& out) {
  std::error_code error;
  if (fs::exists(out, error)) return AlreadyExists(out + ": is there already");
  const bool is_folder = fs::is_directory(model_path, error);
  std::vector<OutputTensor> tensors;
  std::optional<formats::SafetensorsSet> set;  // whichever the tensors point into
  std::unique_ptr<ModelSource> gguf;
  std::string config;
  if (is_folder) {
    LORICA_ASSIGN_OR_RETURN(
        auto opened, formats::SafetensorsSet::Open(model_path, "model", MappedFile::Mode::kMap));
    set.emplace(std::move(opened));
    tensors = FolderTensors(*set, model.sites(), adapter, type);
  } else {
    if (type == MergedType::kKeep) {
      return Unimplemented(model_path + ": --dtype keep: a merged weight has no blocks to keep");
    }
    LORICA_ASSIGN_OR_RETURN(gguf, ModelSource::Open(model_path));
    LORICA_ASSIGN_OR_RETURN(tensors, GgufTensors(gguf.get(), adapter));
    LORICA_ASSIGN_OR_RETURN(config, ToHfConfig(gguf->config()));
  }
  const std::unique_ptr<FileSystem> files = MakePosixFileSystem();
  const std::string partial = out + ".partial";
  const auto write = [&]() -> Status {
    LORICA_RETURN_IF_ERROR(files->Remove(partial));
    LORICA_RETURN_IF_ERROR(files->MakeFolder(partial));
    {
      LORICA_ASSIGN_OR_RETURN(const std::unique_ptr<FileSystem::File> file,
                              files->Create(partial + "/model.safetensors"));
      LORICA_RETURN_IF_ERROR(WriteWeights(tensors, adapter, file.get()));
      LORICA_RETURN_IF_ERROR(file->Sync());
    }
    LORICA_RETURN_IF_ERROR(is_folder ? CopySmallFiles(files.get(), model_path, partial, type)
                                     : WriteText(files.get(), partial + "/config.json", config));
    LORICA_RETURN_IF_ERROR(files->SyncFolder(partial));
    return files->Rename(partial, out);
  };
  const Status status = write();
  if (!status.ok()) (void)files->Remove(partial);
  return status;
}

}  // namespace lorica::model
