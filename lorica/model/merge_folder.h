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

// Writes the folder `out`, which must not exist, from the folder or GGUF file `model_path` that
// `model` was loaded from: model.safetensors, config.json and, of a folder, every other small file
// (tokenizer and the like). It appears whole or not at all. UNIMPLEMENTED for kKeep of a GGUF file,
// and for what config.json cannot say of it.
Status MergeFolder(const std::string& model_path, const Model& model, const lora::Adapter& adapter,
                   MergedType type, const std::string& out);

}  // namespace lorica::model
