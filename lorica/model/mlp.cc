#include "lorica/model/mlp.h"

#include "lorica/model/linear.h"

namespace lorica::model {

void RunMlpBlock(const Step& step, int32_t layer, const TeamMember& member) {
  Activations& buffers = *step.buffers;
  RunNorm(step,
          {.x = buffers.residual.data(),
           .y = buffers.normed.data(),
           .rows = step.rows,
           .weight = &step.layer(layer).post_attention_norm},
          member);

  Rows* const gate_up[] = {&buffers.gate, &buffers.up};
  RunCall(step,
          {.call = lora::CallKind::kGateUp,
           .layer = layer,
           .x = &buffers.normed,
           .outputs = gate_up,
           .combine = kernels::Combine::kSwiGlu},
          member);

  Rows* const residual[] = {&buffers.residual};
  RunCall(step,
          {.call = lora::CallKind::kDown,
           .layer = layer,
           .x = &buffers.gate,
           .outputs = residual,
           .add = true},
          member);
}

}  // namespace lorica::model
