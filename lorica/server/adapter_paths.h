// Paths of adapters on this machine: what --adapters DIR holds, and that nothing leads out of it.
// Functions without state, any thread.
#pragma once

#include <string>
#include <vector>

#include "lorica/base/status.h"

namespace lorica::server {

struct NamedPath {
  std::string name;
  std::string path;
};

// The name of a model or adapter by its path: the last part, without ".gguf".
std::string LastPart(const std::string& path);
// The direct entries of the folder, one adapter each, by name. NOT_FOUND if it cannot be read.
Result<std::vector<NamedPath>> ListAdapters(const std::string& folder);
// Links are followed for --lora-modules (hub caches consist of them), never out of --adapters.
// INVALID_ARGUMENT if `path`, or a file in it, is not inside `folder`; NOT_FOUND if it is not
// there.
Status CheckInside(const std::string& folder, const std::string& path);

}  // namespace lorica::server
