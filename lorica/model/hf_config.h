// A ModelConfig in Hugging Face's words, for a model that lies in a file of another kind: which
// tensors it has, under which names, and its config.json. Pure functions; any thread.
#pragma once

#include <string>
#include <vector>

#include "lorica/base/status.h"
#include "lorica/base/tensor.h"
#include "lorica/model/config.h"

namespace lorica::model {

struct NamedShape {
  std::string name;
  Shape shape;
};
// In the order of the layers.
std::vector<NamedShape> TensorsOf(const ModelConfig& config);

// A config.json of a model of f32 that transformers and ParseModelConfig read as `config`.
// UNIMPLEMENTED for a position encoding that it cannot say.
Result<std::string> ToHfConfig(const ModelConfig& config);

}  // namespace lorica::model
