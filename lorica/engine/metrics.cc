#include "lorica/engine/metrics.h"

namespace lorica::engine {

double MetricValues::MeanSegments() const {
  return steps == 0 ? 0.0 : static_cast<double>(segments) / static_cast<double>(steps);
}

double MetricValues::LoraShare() const {
  return step_ns == 0 ? 0.0 : static_cast<double>(lora_ns) / static_cast<double>(step_ns);
}

void Metrics::Publish(const MetricValues& values) {
  const std::lock_guard lock(mutex_);
  values_ = values;
}

MetricValues Metrics::Read() const {
  const std::lock_guard lock(mutex_);
  return values_;
}

}  // namespace lorica::engine
