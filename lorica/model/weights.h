// ModelWeights: a base model's packed weights, by layer. Owned by Model.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "lorica/kernels/params.h"
#include "lorica/lora/site.h"
#include "lorica/model/config.h"

namespace lorica::model {

// K and N of a projection.
lora::SiteShape LinearShape(const ModelConfig& config, lora::Projection projection);

struct LinearWeights {
  kernels::Weight weight;   // [N, K]
  std::vector<float> bias;  // [N], empty where there is none
};

struct LayerWeights {
  std::array<LinearWeights, lora::kProjections> linear;  // by lora::Projection
  std::vector<float> input_norm;                         // [D]
  std::vector<float> post_attention_norm;                // [D]
  std::vector<float> q_norm;                             // [E], empty where there is none
  std::vector<float> k_norm;                             // [E]

  const LinearWeights& at(lora::Projection projection) const {
    return linear[static_cast<size_t>(projection)];
  }
};

struct ModelWeights {
  kernels::Weight embedding;            // [V, D]
  std::optional<kernels::Weight> head;  // [V, D]; absent when it is the embedding
  std::vector<float> final_norm;        // [D]
  std::vector<LayerWeights> layers;

  const kernels::Weight& head_weight() const { return head.has_value() ? *head : embedding; }
};

}  // namespace lorica::model
