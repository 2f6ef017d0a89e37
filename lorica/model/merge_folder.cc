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

// u64 length, then the JSON that names each tensor's type, shape and place.
std::string Header(const std::vector<const NamedTensor*>& tensors, MergedType type) {
  boost::json::object object;
  object["__metadata__"] = {{"format", "pt"}};
  int64_t at = 0;
  for (const NamedTensor* tensor : tensors) {
    const DType out = OutputType(tensor->view, type);
    const int64_t bytes = ElementsToBytes(out, tensor->view.elements());
    boost::json::array shape(tensor->view.shape.begin(), tensor->view.shape.end());
    object[tensor->name] = {{"dtype", TypeName(out)},
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

Status WriteTensor(const NamedTensor& tensor, const lora::SiteFactors* factors, MergedType type,
                   FileSystem::File* file) {
  const TensorRows base(tensor.view, 0);
  std::optional<MergedRows> merged;
  if (factors != nullptr) merged.emplace(&base, *factors);
  const kernels::RowSource& rows = merged ? static_cast<const kernels::RowSource&>(*merged) : base;
  std::vector<float> row(static_cast<size_t>(rows.k()));
  for (int64_t n = 0; n < rows.n(); ++n) {
    rows.ReadRow(n, row);
    if (!std::all_of(row.begin(), row.end(), [](float value) { return std::isfinite(value); })) {
      return InvalidArgument(tensor.name + ": row " + std::to_string(n) +
                             " of the merged weight is not finite");
    }
    LORICA_RETURN_IF_ERROR(WriteRow(row, OutputType(tensor.view, type), file));
  }
  return OkStatus();
}

Status WriteWeights(const formats::SafetensorsSet& set, const Model& model,
                    const lora::Adapter& adapter, MergedType type, FileSystem::File* file) {
  const std::vector<const NamedTensor*>& tensors = set.tensors();
  const std::string header = Header(tensors, type);
  LORICA_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(header))));
  size_t merged = 0;
  for (const NamedTensor* tensor : tensors) {
    const std::optional<lora::SiteId> site = SiteOf(tensor->name, model.sites());
    const lora::SiteFactors* factors = site ? FindFactors(adapter, *site) : nullptr;
    merged += factors != nullptr ? 1 : 0;
    LORICA_RETURN_IF_ERROR(WriteTensor(*tensor, factors, type, file));
  }
  // Never a silent no-op.
  if (merged == adapter.sites().size()) return OkStatus();
  return Internal("the adapter acts on " + std::to_string(adapter.sites().size()) +
                  " linears and the folder names " + std::to_string(merged) + " of them");
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
  if (!fs::is_directory(model_path, error)) {
    return Unimplemented(model_path +
                         ": expected a Hugging Face folder to merge into (a GGUF file has no "
                         "config.json and tokenizer.json to go with it; tools/gguf_to_hf.py makes "
                         "a folder of one, and serve --merge takes the file as it is)");
  }
  if (fs::exists(out, error)) return AlreadyExists(out + ": is there already");
  LORICA_ASSIGN_OR_RETURN(
      const formats::SafetensorsSet set,
      formats::SafetensorsSet::Open(model_path, "model", MappedFile::Mode::kMap));
  const std::unique_ptr<FileSystem> files = MakePosixFileSystem();
  const std::string partial = out + ".partial";
  const auto write = [&]() -> Status {
    LORICA_RETURN_IF_ERROR(files->Remove(partial));
    LORICA_RETURN_IF_ERROR(files->MakeFolder(partial));
    {
      LORICA_ASSIGN_OR_RETURN(const std::unique_ptr<FileSystem::File> file,
                              files->Create(partial + "/model.safetensors"));
      LORICA_RETURN_IF_ERROR(WriteWeights(set, model, adapter, type, file.get()));
      LORICA_RETURN_IF_ERROR(file->Sync());
    }
    LORICA_RETURN_IF_ERROR(CopySmallFiles(files.get(), model_path, partial, type));
    LORICA_RETURN_IF_ERROR(files->SyncFolder(partial));
    return files->Rename(partial, out);
  };
  const Status status = write();
  if (!status.ok()) (void)files->Remove(partial);
  return status;
}

}  // namespace lorica::model
