// Tells whether a path is a PEFT adapter folder and, where it is something else that people mistake
// for one, what. Reads names only, never a tensor. A free function, safe on any thread.
#pragma once

#include <string>

#include "lorica/base/status.h"

namespace lorica::formats {

// OK when `path` is a folder with an adapter_config.json. NOT_FOUND for a missing path or config
// (with the sub-folders that have one), UNIMPLEMENTED for a GGUF, MLX, torchtune or image adapter,
// INVALID_ARGUMENT for a base model and for any other file.
Status CheckAdapterFolder(const std::string& path);

}  // namespace lorica::formats
