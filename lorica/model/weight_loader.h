// Streams the tensors of a ModelSource into a backend's packed form, one at a time, so that no
// second copy of a weight ever exists, and digests what it reads. Called by Model::Load on its
// thread; packing itself runs on the context's pool.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "lorica/base/machine_context.h"
#include "lorica/kernels/backend.h"
#include "lorica/lora/adapter.h"
#include "lorica/model/model.h"
#include "lorica/model/model_source.h"
#include "lorica/model/weights.h"

namespace lorica::model {

struct LoadTarget {
  const kernels::Backend* backend = nullptr;
  MachineContext* context = nullptr;
  bool round_to_bf16 = false;  // else each weight keeps its exact values
  WeightType weight_type = WeightType::kAuto;
  const lora::Adapter* merge = nullptr;  // added to the weights; null: none
  std::function<void(double fraction)> progress;
};

struct LoadedWeights {
  ModelWeights weights;
  std::string digest;  // of every byte of every tensor and of the config, 64 hex digits
};

Result<LoadedWeights> LoadWeights(ModelSource* source, const LoadTarget& target);

// What a matrix that is stored as `stored` is quantised to; none: it is not.
enum class MatrixKind : uint8_t {
  kLinear,
  kVocabulary
};  // the embedding and the head are rows of V
std::optional<DType> QuantizedStorage(WeightType type, MatrixKind kind, DType stored);

// The narrowest of bf16, f16 and f32 that holds every value of the tensor exactly.
DType ExactStorage(const TensorRows& rows, MachineContext* context);

}  // namespace lorica::model
