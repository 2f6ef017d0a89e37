#include "lorica/model/attention.h"

#include "lorica/model/linear.h"

namespace lorica::model {
namespace {

void RunRope(const Step& step, const TeamMember& member) {
  const TraceScope scope(step.TraceOf(member), Zone::kRope);
  const ModelConfig& config = step.model->config();
  kernels::RopeParams params;
  params.q = step.buffers->q.data();
  params.k = step.buffers->k.data();
  params.q_stride = step.buffers->q.width();
  params.k_stride = step.buffers->k.width();
  params.rows = step.rows;
  params.heads = config.heads;
  params.kv_heads = config.kv_heads;
  params.head_dim = config.head_dim;
  params.rotary_dims = config.head_dim;
  params.positions = step.batch->positions.data();
  params.cos_table = step.rope->cos();
  params.sin_table = step.rope->sin();
  step.model->backend().Rope(params, member);
}

void RunKvWrite(const Step& step, int32_t layer, const TeamMember& member) {
  const TraceScope scope(step.TraceOf(member), Zone::kKvWrite);
  const Activations& buffers = *step.buffers;
  kernels::KvWriteParams write;
  write.k = buffers.k.data();
  write.v = buffers.v.data();
  write.k_stride = buffers.k.width();
  write.v_stride = buffers.v.width();
  write.layout = step.pages->layout();
  write.layer = layer;
  write.pages = step.pages->data();
  write.sequences = step.sequences;
  step.model->backend().KvWrite(write, member);
  member.Sync();
}

void RunAttention(const Step& step, int32_t layer,
                  std::span<const kernels::AttentionSequence> asking, const TeamMember& member) {
  const TraceScope scope(step.TraceOf(member), Zone::kAttention);
  const ModelConfig& config = step.model->config();
  Activations& buffers = *step.buffers;
  kernels::AttentionParams attend;
  attend.q = buffers.q.data();
  attend.out = buffers.attention.data();
  attend.q_stride = buffers.q.width();
  attend.out_stride = buffers.attention.width();
  attend.heads = config.heads;
  attend.scale = static_cast<float>(config.score_scale);
  attend.layout = step.pages->layout();
  attend.layer = layer;
  attend.pages = step.pages->data();
  attend.sequences = asking;
  attend.scratch = buffers.scratch.data();
  attend.scratch_floats = buffers.scratch.width();
  step.model->backend().Attention(attend, member);
  member.Sync();
}

}  // namespace

void RunAttentionBlock(const Step& step, int32_t layer,
                       std::span<const kernels::AttentionSequence> asking,
                       const TeamMember& member) {
  const ModelConfig& config = step.model->config();
  const LayerWeights& weights = step.layer(layer);
  Activations& buffers = *step.buffers;
  RunNorm(step,
          {.x = buffers.residual.data(),
           .y = buffers.normed.data(),
           .rows = step.rows,
           .weight = &weights.input_norm},
          member);

  Rows* const qkv[] = {&buffers.q, &buffers.k, &buffers.v};
  RunCall(step,
          {.call = lora::CallKind::kQkv, .layer = layer, .x = &buffers.normed, .outputs = qkv},
          member);
  if (config.qk_norm) {
    // Heads of dense rows are rows themselves.
    RunNorm(step,
            {.x = buffers.q.data(),
             .y = buffers.q.data(),
             .rows = step.rows * config.heads,
             .weight = &weights.q_norm},
            member);
    RunNorm(step,
            {.x = buffers.k.data(),
             .y = buffers.k.data(),
             .rows = step.rows * config.kv_heads,
             .weight = &weights.k_norm},
            member);
  }
  RunRope(step, member);
  RunKvWrite(step, layer, member);
  RunAttention(step, layer, asking, member);
}

void RunAttentionOutput(const Step& step, int32_t layer, const TeamMember& member) {
  Activations& buffers = *step.buffers;
  Rows* const residual[] = {&buffers.residual};
  RunCall(step,
          {.call = lora::CallKind::kO,
           .layer = layer,
           .x = &buffers.attention,
           .outputs = residual,
           .add = true},
          member);
}

}  // namespace lorica::model
