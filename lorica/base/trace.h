// Trace: time and calls by zone, counted by thread 0 of a region and read between steps. Owned by
// MachineContext. A zone is an enum, so that counting costs two clock reads and no lookup.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace lorica {

// In alphabetical order; ZoneName follows it.
enum class Zone : uint8_t {
  kAnswer,
  kAttention,
  kBatch,
  kCallDown,
  kCallGateUp,
  kCallO,
  kCallQkv,
  kEmbed,
  kHead,
  kKvWrite,
  kLinear,  // base product, with the expand in its epilogue where the step has LoRA
  kLogitStats,
  kLogits,  // norm, head and statistics
  kLoraExpand,
  kLoraShrink,
  kNorm,
  kPlan,
  kRope,
  kSample,
  kSchedule,
  kStep,
  kTeam,  // until a region's threads have come together, and at its end
};
inline constexpr int kZones = static_cast<int>(Zone::kTeam) + 1;

std::string_view ZoneName(Zone zone);

class Trace {
 public:
  struct Counter {
    int64_t calls = 0;
    int64_t nanoseconds = 0;
  };

  void Add(Zone zone, int64_t nanoseconds) {
    Counter& counter = counters_[static_cast<size_t>(zone)];
    ++counter.calls;
    counter.nanoseconds += nanoseconds;
  }
  const Counter& counter(Zone zone) const { return counters_[static_cast<size_t>(zone)]; }
  void Reset() { counters_ = {}; }

 private:
  std::array<Counter, kZones> counters_{};
};

// Counts its own lifetime into a zone; does nothing when `trace` is null (threads other than 0).
class TraceScope {
 public:
  TraceScope(Trace* trace, Zone zone) : trace_(trace), zone_(zone) {
    if (trace_ != nullptr) begin_ = std::chrono::steady_clock::now();
  }
  ~TraceScope() {
    if (trace_ == nullptr) return;
    const auto elapsed = std::chrono::steady_clock::now() - begin_;
    trace_->Add(zone_, std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count());
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  Trace* trace_;
  Zone zone_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace lorica
