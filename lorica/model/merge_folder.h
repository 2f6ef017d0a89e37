// MergeFolder: the other path to an adapter's answers: W + s * B * A written out as a Hugging Face
// folder of its own. Reads and writes files; any thread.
#pragma once

#include <string>

#include "lorica/base/status.h"
#include "lorica/lora/adapter.h"
#include "lorica/model/model.h"

namespace lorica::model {

enum class MergedType : uint8_t {
  kFloat32,  // every weight in f32
  kKeep,     // each in its checkpoint's type, rounded once
};

// Writes the folder `out`, which must not exist, from the folder `model_path` that `model` was
// loaded from: model.safetensors, config.json and every other small file (tokenizer and the like).
// It appears whole or not at all. UNIMPLEMENTED for GGUF, which lacks those files.
Status MergeFolder(const std::string& model_path, const Model& model, const lora::Adapter& adapter,
                   MergedType type, const std::string& out);

}  // namespace lorica::model
