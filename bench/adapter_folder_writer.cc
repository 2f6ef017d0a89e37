#include "bench/adapter_folder_writer.h"

#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "lorica/base/file_system.h"

namespace lorica::bench {
namespace {

struct Tensor {
  std::string name;
  int64_t rows = 0;
  int64_t columns = 0;
};

Status WriteText(FileSystem* files, const std::string& path, std::string_view text) {
  LORICA_ASSIGN_OR_RETURN(const std::unique_ptr<FileSystem::File> file, files->Create(path));
  return file->Append(std::as_bytes(std::span(text)));
}

Status WriteConfig(FileSystem* files, const std::string& folder, int32_t rank, int32_t alpha) {
  return WriteText(
      files, folder + "/adapter_config.json",
      R"({"peft_type":"LORA","r":)" + std::to_string(rank) + R"(,"lora_alpha":)" +
          std::to_string(alpha) +
          R"(,"target_modules":["q_proj","k_proj","v_proj","o_proj","gate_proj","up_proj","down_proj"]})");
}

constexpr std::string_view kWeights = "/adapter_model.safetensors";

}  // namespace

Status WriteRandomAdapter(const std::string& folder, const model::Model& model, int32_t rank,
                          uint32_t seed) {
  const lora::SiteSpace sites = model.sites();
  std::vector<Tensor> tensors;
  for (int32_t i = 0; i < sites.layers * lora::kProjections; ++i) {
    const lora::SiteShape shape = model.Shape({i});
    const lora::Projection projection = sites.ProjectionOf({i});
    const std::string module = "base_model.model.model.layers." + std::to_string(sites.Layer({i})) +
                               (projection <= lora::Projection::kO ? ".self_attn." : ".mlp.") +
                               std::string(lora::ProjectionName(projection));
    tensors.push_back({module + ".lora_A.weight", rank, shape.k});
    tensors.push_back({module + ".lora_B.weight", shape.n, rank});
  }
  std::string json = "{";
  int64_t at = 0;
  for (const Tensor& tensor : tensors) {
    const int64_t bytes = tensor.rows * tensor.columns * 2;
    json += (at == 0 ? "\"" : ",\"") + tensor.name + R"(":{"dtype":"BF16","shape":[)" +
            std::to_string(tensor.rows) + "," + std::to_string(tensor.columns) +
            R"(],"data_offsets":[)" + std::to_string(at) + "," + std::to_string(at + bytes) + "]}";
    at += bytes;
  }
  json += "}";
  json.append((8 - json.size() % 8) % 8, ' ');
  std::string bytes(8, '\0');
  const uint64_t size = json.size();
  std::memcpy(bytes.data(), &size, sizeof(size));
  bytes += json;
  const size_t head = bytes.size();
  bytes.resize(head + static_cast<size_t>(at));
  uint32_t state = seed * 2654435761u + 1u;
  for (size_t i = head; i < bytes.size(); i += 2) {
    state = state * 1664525u + 1013904223u;
    const uint16_t bits = F32ToBf16((static_cast<float>(state >> 8) * 0x1p-24f - 0.5f) * 0.05f);
    std::memcpy(&bytes[i], &bits, sizeof(bits));
  }
  const std::unique_ptr<FileSystem> files = MakePosixFileSystem();
  LORICA_RETURN_IF_ERROR(files->MakeFolder(folder));
  LORICA_RETURN_IF_ERROR(WriteConfig(files.get(), folder, rank, rank));
  return WriteText(files.get(), folder + std::string(kWeights), bytes);
}

Status WriteLinkedAdapter(const std::string& folder, const std::string& folder_of, int32_t rank,
                          int32_t alpha) {
  const std::unique_ptr<FileSystem> files = MakePosixFileSystem();
  LORICA_RETURN_IF_ERROR(files->MakeFolder(folder));
  LORICA_RETURN_IF_ERROR(WriteConfig(files.get(), folder, rank, alpha));
  std::error_code error;
  std::filesystem::create_hard_link(folder_of + std::string(kWeights),
                                    folder + std::string(kWeights), error);
  return error ? Unavailable(folder + ": " + error.message()) : OkStatus();
}

}  // namespace lorica::bench
