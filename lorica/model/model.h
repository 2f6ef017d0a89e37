// Model: config and packed weights of one base model, immutable once loaded; the BaseView that
// the LoRA core asks. The engine's owner owns it; any thread may read it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lorica/base/machine_context.h"
#include "lorica/base/status.h"
#include "lorica/kernels/backend.h"
#include "lorica/lora/adapter.h"
#include "lorica/lora/base_view.h"
#include "lorica/model/config.h"
#include "lorica/model/weights.h"

namespace lorica::model {

// --dtype. kAuto: bfloat16 for bf16 checkpoints and GGUF, else float32.
enum class ComputeType : uint8_t { kAuto, kFloat32, kBfloat16 };
Result<ComputeType> ParseComputeType(std::string_view text);

// --weights: what the matrices of the base become (kernels/quantize.h). kAuto: what --dtype says,
// bf16 or exact. kInt8: bytes, one scale a row. kQ4: nibbles with a scale and a minimum a block of
// 32, the embedding and the head in bytes. kGguf: the blocks of a GGUF file as they are, its other
// matrices as kAuto.
enum class WeightType : uint8_t { kAuto, kBf16, kInt8, kQ4, kGguf };
inline constexpr std::string_view kWeightTypeNames[] = {"auto", "bf16", "int8", "q4", "gguf"};
Result<WeightType> ParseWeightType(std::string_view text);

struct ModelOptions {
  ComputeType compute_type = ComputeType::kAuto;
  WeightType weight_type = WeightType::kAuto;
  std::function<void(double fraction)> progress = {};  // may be empty; called on the loading thread
  // Added to the weights for good: the model is then this adapter's own. Null: none.
  const lora::Adapter* merge = nullptr;
};

class Model : public lora::BaseView {
 public:
  // `path` is a Hugging Face folder or a GGUF file. Weights stream into their packed form on
  // `context`'s pool. `backend` and `context` must outlive the model.
  static Result<std::unique_ptr<Model>> Load(const std::string& path, const ModelOptions& options,
                                             const kernels::Backend* backend,
                                             MachineContext* context);
  // Random weights of a given shape, for benchmarks. Deterministic in `seed`.
  static Result<std::unique_ptr<Model>> Synthetic(const ModelConfig& config,
                                                  const ModelOptions& options, uint64_t seed,
                                                  const kernels::Backend* backend,
                                                  MachineContext* context);

  const ModelConfig& config() const { return config_; }
  const ModelWeights& weights() const { return weights_; }
  const kernels::Backend& backend() const { return *backend_; }
  // Resolved: kFloat32 or kBfloat16.
  ComputeType compute_type() const { return compute_type_; }
  kernels::ActivationType activation_type() const {
    return compute_type_ == ComputeType::kBfloat16 ? kernels::ActivationType::kBf16
                                                   : kernels::ActivationType::kF32;
  }

  // lora::BaseView
  lora::SiteSpace sites() const override { return {config_.layers}; }
  lora::SiteShape Shape(lora::SiteId site) const override;
  bool tied_head() const override { return config_.tied_head; }
  void BaseRow(lora::SiteId site, int64_t n, std::span<float> row) const override;
  const std::string& digest() const override { return digest_; }

 private:
  Model() = default;

  ModelConfig config_;
  ModelWeights weights_;
  ComputeType compute_type_ = ComputeType::kFloat32;
  std::string digest_;
  const kernels::Backend* backend_ = nullptr;
};

}  // namespace lorica::model
