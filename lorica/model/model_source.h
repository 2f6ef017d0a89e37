// ModelSource: the tensors of one base model by their Hugging Face names, whether they lie in a
// folder of safetensors or in a GGUF file, and which of them have been taken. Owned by the loader
// and dropped when the model is packed; one thread takes, any thread reads rows.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "lorica/base/status.h"
#include "lorica/formats/gguf.h"
#include "lorica/formats/model_files.h"
#include "lorica/kernels/params.h"
#include "lorica/model/config.h"

namespace lorica::model {

// Rows of one tensor as f32, in Hugging Face order. Points into the source's mapping.
class TensorRows final : public kernels::RowSource {
 public:
  // `pair_heads` > 0: rows of each of that many heads are stored with rotary pairs side by side
  // (llama.cpp's order) and come out as two halves. A 1-D tensor is one column of n rows.
  TensorRows(const TensorView& view, int32_t pair_heads);

  int64_t n() const override { return view_.shape[0]; }
  int64_t k() const override { return view_.shape.size() == 2 ? view_.shape[1] : 1; }
  void ReadRow(int64_t n, std::span<float> row) const override;
  DType stored() const override { return view_.dtype; }
  const std::byte* StoredRow(int64_t n) const override;

  const TensorView& view() const { return view_; }
  // Whether any row read so far held a NaN or an infinity.
  bool saw_non_finite() const { return saw_non_finite_.load(std::memory_order_relaxed); }

 private:
  const std::byte* Locate(int64_t n) const;

  TensorView view_;
  int32_t pair_heads_;
  mutable std::atomic<bool> saw_non_finite_{false};
};

class ModelSource {
 public:
  // A Hugging Face folder (config.json and safetensors) or a GGUF file. Reads and checks config.
  static Result<std::unique_ptr<ModelSource>> Open(const std::string& path);

  const ModelConfig& config() const { return config_; }
  const std::string& path() const { return path_; }
  bool is_gguf() const { return gguf_.has_value(); }

  bool Has(const std::string& name) const { return Find(name) != nullptr; }
  // The tensor `name` ("model.layers.0.self_attn.q_proj.weight"), which must have `shape`.
  // NOT_FOUND or INVALID_ARGUMENT with both shapes, UNIMPLEMENTED for an integer type.
  Result<std::unique_ptr<TensorRows>> Take(const std::string& name, const Shape& shape);
  // INVALID_ARGUMENT naming a tensor that the file holds and nobody took.
  Status CheckAllTaken() const;
  // Gives the mapped pages of a tensor that has been read back to the system.
  void Release(const TensorView& view) const;

 private:
  ModelSource() = default;
  Status OpenFolder();
  // `name` as this container spells it.
  std::string StoredName(const std::string& name) const;
  const TensorView* Find(const std::string& name) const;
  int32_t PairHeads(const std::string& name) const;

  std::string path_;
  ModelConfig config_;
  std::optional<formats::SafetensorsSet> folder_;
  std::optional<formats::GgufFile> gguf_;
  std::set<std::string> taken_;  // stored names
};

}  // namespace lorica::model
