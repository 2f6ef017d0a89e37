#include "bench/step_breakdown.h"

#include <algorithm>

namespace lorica::bench {
namespace {

using lora::Projection;

// Parts that hold no other part, in the order of a step.
constexpr Zone kParts[] = {Zone::kSchedule, Zone::kBatch,     Zone::kPlan,       Zone::kTeam,
                           Zone::kEmbed,    Zone::kNorm,      Zone::kCallQkv,    Zone::kRope,
                           Zone::kKvWrite,  Zone::kAttention, Zone::kCallO,      Zone::kCallGateUp,
                           Zone::kCallDown, Zone::kHead,      Zone::kLogitStats, Zone::kSample,
                           Zone::kAnswer};

struct PartWork {
  double bytes = 0.0;
  double flops = 0.0;
};

void AddWeight(const kernels::Weight& weight, int64_t rows, PartWork* work) {
  work->bytes += static_cast<double>(weight.data.bytes() + weight.scales.bytes());
  work->flops += 2.0 * static_cast<double>(rows) * static_cast<double>(weight.k) *
                 static_cast<double>(weight.n);
}

PartWork WorkOf(Zone zone, const StepBreakdown::Work& work) {
  const model::ModelWeights& weights = work.model->weights();
  PartWork part;
  const auto add = [&](std::initializer_list<Projection> projections) {
    for (const model::LayerWeights& layer : weights.layers) {
      for (const Projection projection : projections) {
        AddWeight(layer.at(projection).weight, work.rows, &part);
      }
    }
  };
  switch (zone) {
    case Zone::kCallQkv:
      add({Projection::kQ, Projection::kK, Projection::kV});
      break;
    case Zone::kCallO:
      add({Projection::kO});
      break;
    case Zone::kCallGateUp:
      add({Projection::kGate, Projection::kUp});
      break;
    case Zone::kCallDown:
      add({Projection::kDown});
      break;
    case Zone::kHead:
      AddWeight(weights.head_weight(), work.rows, &part);
      break;
    case Zone::kAttention:
      part.bytes = work.kv_bytes;
      break;
    default:
      break;
  }
  return part;
}

}  // namespace

void StepBreakdown::Add(double seconds, const Trace& trace) {
  Step step;
  step.seconds = seconds;
  for (const Zone zone : kParts) {
    step.parts[static_cast<size_t>(zone)] =
        static_cast<double>(trace.counter(zone).nanoseconds) * 1e-9;
  }
  steps_.push_back(step);
}

void StepBreakdown::Print(const std::string& title, const Work& work, const Floor& floor,
                          std::FILE* out) const {
  std::vector<Step> steps = steps_;
  std::sort(steps.begin(), steps.end(),
            [](const Step& a, const Step& b) { return a.seconds < b.seconds; });
  steps.resize((steps.size() + 1) / 2);
  const auto count = static_cast<double>(steps.size());
  double whole = 0.0;
  for (const Step& step : steps) whole += step.seconds / count;
  std::fprintf(out, "%s: %.0f us a step, mean of the faster %d of %d\n", title.c_str(), whole * 1e6,
               static_cast<int>(steps.size()), static_cast<int>(steps_.size()));
  std::fprintf(out, "%-14s %10s %8s %10s %8s\n", "part", "us", "of step", "floor us", "share");
  double explained = 0.0;
  for (const Zone zone : kParts) {
    double seconds = 0.0;
    for (const Step& step : steps) seconds += step.parts[static_cast<size_t>(zone)] / count;
    explained += seconds;
    std::fprintf(out, "%-14s %10.1f %7.1f%%", std::string(ZoneName(zone)).c_str(), seconds * 1e6,
                 100.0 * seconds / whole);
    const PartWork part = WorkOf(zone, work);
    if (part.bytes > 0.0) {
      const double multiply = floor.MultiplyRate(work.model->activation_type());
      const double least =
          std::max(part.bytes / floor.ReadRate(), work.has_flops ? part.flops / multiply : 0.0);
      std::fprintf(out, " %10.1f %7.0f%%", least * 1e6, 100.0 * least / seconds);
    }
    std::fprintf(out, "\n");
  }
  std::fprintf(out, "%-14s %10.1f %7.1f%%\n", "explained", explained * 1e6,
               100.0 * explained / whole);
}

}  // namespace lorica::bench
