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
  RunCall(
      step,
      {.call = lora::CallKind::kGateUp, .layer = layer, .x = &buffers.normed, .outputs = gate_up},
      member);

  kernels::SwiGluParams params;
  params.gate = buffers.gate.data();
  params.up = buffers.up.data();
  params.y = buffers.gate.data();
  params.rows = step.rows;
  params.width = buffers.gate.width();
  params.gate_stride = buffers.gate.width();
  params.up_stride = buffers.up.width();
  params.y_stride = buffers.gate.width();
  step.model->backend().SwiGlu(params, member);
  member.Sync();

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
