#include "lorica/formats/adapter_folder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <vector>

namespace lorica::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfig = "adapter_config.json";
constexpr size_t kMaxListed = 8;

struct Telltale {
  std::string_view file;
  StatusCode code;
  std::string_view meaning;
};

// Files that say what a folder without an adapter_config.json is, the surest first.
constexpr auto kTelltales = std::to_array<Telltale>({
    {"adapters.safetensors", StatusCode::kUnimplemented, "an MLX adapter, which is not read"},
    {"adapters.npz", StatusCode::kUnimplemented, "an old MLX adapter, which is not read"},
    {"pytorch_lora_weights.safetensors", StatusCode::kUnimplemented,
     "an image-model LoRA, which is not read"},
    {"adapter_0.pt", StatusCode::kUnimplemented, "a torchtune checkpoint, which is not read"},
    {"adapter_model.pt", StatusCode::kUnimplemented,
     "pickled weights of a torchtune checkpoint, which are not read: export it in PEFT's format"},
    {"config.json", StatusCode::kInvalidArgument, "a base model"},
});

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// "; sub-folders with one: default, other"
std::string SubFolders(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (Exists(entry->path() / kConfig)) names.push_back(entry->path().filename().string());
  }
  if (names.empty()) return "";
  std::sort(names.begin(), names.end());
  std::string list = "; sub-folders with one: ";
  for (size_t i = 0; i < std::min(names.size(), kMaxListed); ++i) {
    list += (i == 0 ? "" : ", ") + names[i];
  }
  return list + (names.size() > kMaxListed ? ", …" : "");
}

}  // namespace

Status CheckAdapterFolder(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return NotFound(path + ": expected an adapter folder, found nothing");
  if (!fs::is_directory(status)) {
    if (path.ends_with(".gguf")) return Unimplemented(path + ": GGUF adapters are not read yet");
    return InvalidArgument(path + ": expected an adapter folder, found a file");
  }
  if (Exists(fs::path(path) / kConfig)) {
    if (Exists(fs::path(path) / "new_embeddings.safetensors")) {
      return Unimplemented(path +
                           ": expected no new_embeddings.safetensors (rows for added "
                           "tokens are not served), found one");
    }
    return OkStatus();
  }
  const std::string missing = path + ": expected an " + std::string(kConfig) + ", found ";
  if (const std::string list = SubFolders(path); !list.empty()) {
    return NotFound(missing + "none" + list);
  }
  for (const Telltale& telltale : kTelltales) {
    if (!Exists(fs::path(path) / telltale.file)) continue;
    return Status(telltale.code, missing + std::string(telltale.file) + ", the sign of " +
                                     std::string(telltale.meaning));
  }
  return NotFound(missing + "none");
}

}  // namespace lorica::formats
