// A call: the linear layers of one decoder layer that read the same x, base weight and LoRA
// together. Pure functions over a Step, called by every thread of its region.
#pragma once

#include <span>

#include "lorica/model/step.h"

namespace lorica::model {

// The sites of a layer's call, for planning; `call` is not kHead.
lora::CallSites SitesOf(const ModelConfig& config, int32_t layer, lora::CallKind call);

// Runs one call on x [rows, K]; `outputs[i]` receives the i-th site of SitesOf. `add` adds to the
// outputs (the residual stream) instead of replacing them. Ends with a Sync.
struct CallRun {
  lora::CallKind call = lora::CallKind::kQkv;
  int32_t layer = 0;
  const Rows* x = nullptr;
  std::span<Rows* const> outputs;
  bool add = false;
  kernels::Combine combine = kernels::Combine::kNone;
};
void RunCall(const Step& step, const CallRun& run, const TeamMember& member);

// y[r] = rms(x[r]) * weight over dense rows. Ends with a Sync.
struct NormRun {
  const float* x = nullptr;
  float* y = nullptr;
  int64_t rows = 0;
  const std::vector<float>* weight = nullptr;
};
void RunNorm(const Step& step, const NormRun& run, const TeamMember& member);

}  // namespace lorica::model
