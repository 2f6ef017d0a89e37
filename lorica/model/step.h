// Step: what every stage of one forward pass reads: the model, its buffers, the batch and the
// plans. Made by Transformer for one region and shared read-only by its threads.
#pragma once

#include <span>

#include "lorica/base/thread_pool.h"
#include "lorica/base/trace.h"
#include "lorica/lora/plan.h"
#include "lorica/lora/segments.h"
#include "lorica/lora/weight_table.h"
#include "lorica/model/activations.h"
#include "lorica/model/batch.h"
#include "lorica/model/kv_pages.h"
#include "lorica/model/model.h"
#include "lorica/model/norm_rope.h"

namespace lorica::model {

// Calls of a layer that have a plan: q, k, v; o; gate, up; down.
inline constexpr int kLayerCalls = 4;

struct Step {
  const Model* model = nullptr;
  Activations* buffers = nullptr;
  const RopeTables* rope = nullptr;
  const Batch* batch = nullptr;
  KvPages* pages = nullptr;
  int64_t rows = 0;                                       // that its stages run on
  std::span<const kernels::AttentionSequence> sequences;  // rows whose K and V are written
  const lora::SegmentTable* segments = nullptr;           // of the rows
  const lora::WeightTable* table = nullptr;
  std::span<const lora::LoraPlan* const> plans;  // [L * kLayerCalls]
  float* s_scratch = nullptr;
  Trace* trace = nullptr;

  const LayerWeights& layer(int32_t index) const {
    return model->weights().layers[static_cast<size_t>(index)];
  }
  // Thread 0 alone counts.
  Trace* TraceOf(const TeamMember& member) const { return member.thread == 0 ? trace : nullptr; }
};

}  // namespace lorica::model
