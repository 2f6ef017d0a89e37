#include "lorica/server/adapter_paths.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace lorica::server {

namespace fs = std::filesystem;

std::string LastPart(const std::string& path) {
  fs::path p(path);
  if (!p.has_filename()) p = p.parent_path();
  return p.extension() == ".gguf" ? p.stem().string() : p.filename().string();
}

// The direct entries of the folder, one adapter each, by name.
Result<std::vector<NamedPath>> ListAdapters(const std::string& folder) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error) return NotFound("--adapters " + folder + ": cannot be read: " + error.message());
  std::vector<NamedPath> adapters;
  // increment and not a range's ++, which throws.
  for (; entries != fs::directory_iterator(); entries.increment(error)) {
    const fs::directory_entry& entry = *entries;
    const std::string path = entry.path().string();
    if (entry.path().filename().string().front() == '.') continue;
    const bool is_gguf = entry.path().extension() == ".gguf";
    std::error_code unknown;  // of one entry: then it is no folder
    if (!entry.is_directory(unknown) && !is_gguf) continue;
    adapters.push_back({LastPart(path), path});
  }
  if (error) return NotFound("--adapters " + folder + ": cannot be read: " + error.message());
  std::sort(adapters.begin(), adapters.end(),
            [](const NamedPath& a, const NamedPath& b) { return a.name < b.name; });
  return adapters;
}

// Links are followed for --lora-modules (hub caches consist of them), never out of --adapters.
Status CheckInside(const std::string& folder, const std::string& path) {
  std::error_code error;
  const fs::path root = fs::canonical(folder, error);
  if (error) return NotFound(folder + ": cannot be resolved: " + error.message());
  const fs::path target = fs::canonical(path, error);
  if (error) return NotFound(path + ": cannot be resolved: " + error.message());
  std::vector<fs::path> inside = {target};
  if (fs::is_directory(target, error)) {
    fs::directory_iterator entries(target, error);
    while (!error && entries != fs::directory_iterator()) {
      inside.push_back(fs::canonical(entries->path(), error));
      if (error) return NotFound(entries->path().string() + ": a link that leads nowhere");
      entries.increment(error);
    }
  }
  if (error) return NotFound(path + ": cannot be read: " + error.message());
  for (const fs::path& real : inside) {
    if (std::mismatch(root.begin(), root.end(), real.begin(), real.end()).first != root.end()) {
      return InvalidArgument(path + ": a link leads out of " + folder + ", to " + real.string());
    }
  }
  return OkStatus();
}

}  // namespace lorica::server
