#include "lorica/model/linear.h"

#include <array>

namespace lorica::model {
namespace {

using lora::CallKind;
using lora::Projection;

std::span<const Projection> ProjectionsOf(CallKind call) {
  static constexpr Projection kQkv[] = {Projection::kQ, Projection::kK, Projection::kV};
  static constexpr Projection kO[] = {Projection::kO};
  static constexpr Projection kGateUp[] = {Projection::kGate, Projection::kUp};
  static constexpr Projection kDown[] = {Projection::kDown};
  switch (call) {
    case CallKind::kQkv:
      return kQkv;
    case CallKind::kO:
      return kO;
    case CallKind::kGateUp:
      return kGateUp;
    case CallKind::kDown:
      return kDown;
    case CallKind::kHead:
      break;
  }
  LORICA_CHECK(false);
  return {};
}

Zone ZoneOf(CallKind call) {
  switch (call) {
    case CallKind::kQkv:
      return Zone::kCallQkv;
    case CallKind::kO:
      return Zone::kCallO;
    case CallKind::kGateUp:
      return Zone::kCallGateUp;
    case CallKind::kDown:
      return Zone::kCallDown;
    case CallKind::kHead:
      break;
  }
  return Zone::kHead;
}

}  // namespace

lora::CallSites SitesOf(const ModelConfig& config, int32_t layer, CallKind call) {
  const lora::SiteSpace space{config.layers};
  lora::CallSites sites;
  sites.call = call;
  sites.layer = layer;
  for (const Projection projection : ProjectionsOf(call)) {
    const auto part = static_cast<size_t>(sites.parts++);
    sites.site[part] = space.Linear(layer, projection);
    sites.shape[part] = LinearShape(config, projection);
  }
  return sites;
}

void RunCall(const Step& step, const CallRun& run, const TeamMember& member) {
  const TraceScope scope(step.TraceOf(member), ZoneOf(run.call));
  const lora::SiteSpace space = step.model->sites();
  const LayerWeights& layer = step.layer(run.layer);
  const std::span<const Projection> projections = ProjectionsOf(run.call);
  std::array<kernels::LinearPart, lora::kMaxCallSites> parts;
  for (size_t i = 0; i < projections.size(); ++i) {
    const LinearWeights& linear = layer.at(projections[i]);
    parts[i].weight = &linear.weight;
    parts[i].site = space.Linear(run.layer, projections[i]);
    parts[i].y = run.outputs[i]->data();
    parts[i].y_stride = run.outputs[i]->width();
    parts[i].epilogue.bias = linear.bias.empty() ? nullptr : linear.bias.data();
    parts[i].epilogue.add_to_output = run.add;
  }
  kernels::LinearParams params;
  params.x = run.x->data();
  params.rows = step.rows;
  params.x_stride = run.x->width();
  params.k = run.x->width();
  params.activation_type = step.model->activation_type();
  params.parts = {parts.data(), projections.size()};
  params.combine = run.combine;
  params.plan =
      step.plans[static_cast<size_t>(run.layer * kLayerCalls + static_cast<int32_t>(run.call))];
  params.segments = step.segments;
  params.table = step.table;
  params.s_scratch = step.s_scratch;
  params.packed_x = step.buffers->packed_x.data();
  params.trace = step.trace;
  step.model->backend().LoraLinear(params, member);
  member.Sync();
}

void RunNorm(const Step& step, const NormRun& run, const TeamMember& member) {
  const TraceScope scope(step.TraceOf(member), Zone::kNorm);
  const auto width = static_cast<int64_t>(run.weight->size());
  kernels::RmsNormParams params;
  params.x = run.x;
  params.y = run.y;
  params.rows = run.rows;
  params.width = width;
  params.x_stride = width;
  params.y_stride = width;
  params.weight = run.weight->data();
  params.epsilon = static_cast<float>(step.model->config().norm_epsilon);
  step.model->backend().RmsNorm(params, member);
  member.Sync();
}

}  // namespace lorica::model
