// Transformer: runs one Batch through the model. Owns the activations (allocated once, for the
// largest step) and the step's segments and plans. Owned by the engine and called by its thread;
// opens the one parallel region of a step. Walks embedding, layers (norm, q/k/v, rope, K/V write,
// attention, o; norm, gate/up, SwiGLU, down), final norm; the head runs for wanted rows only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "lorica/base/machine_context.h"
#include "lorica/base/status.h"
#include "lorica/lora/plan.h"
#include "lorica/lora/segments.h"
#include "lorica/lora/weight_table.h"
#include "lorica/model/batch.h"
#include "lorica/model/kv_pages.h"
#include "lorica/model/model.h"

namespace lorica::model {

// Rows of logits that are computed at a time: bounds their memory whatever `echo` asks for.
inline constexpr int32_t kLogitRows = 64;

class Transformer {
 public:
  struct Options {
    int32_t max_rows = 0;       // --max-num-batched-tokens
    int64_t max_positions = 0;  // longest sequence
  };
  // `model` and `context` must outlive it.
  static Result<std::unique_ptr<Transformer>> Create(const Model* model, const Options& options,
                                                     MachineContext* context);
  ~Transformer();

  // Groups the batch's rows into segments and plans every call (steps 5 and 6 of a request's way).
  // `table` is read until the next Plan.
  void Plan(const Batch& batch, const lora::WeightTable& table);
  // Everything up to the final norm; from the last layer's attention on for batch.logit_rows alone.
  // `batch` is the one planned.
  void Forward(const Batch& batch, KvPages* pages);

  // Logits of logit_rows[begin, begin + count), count <= kLogitRows, with their statistics. Valid
  // until the next call.
  struct Logits {
    const float* values = nullptr;  // [count, vocab]
    int64_t stride = 0;
    std::span<const kernels::RowStats> stats;
  };
  Logits ComputeLogits(int32_t begin, int32_t count);

  int32_t segments() const;  // of the planned batch
  int32_t distinct_plans() const;

 private:
  struct Impl;
  explicit Transformer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lorica::model
