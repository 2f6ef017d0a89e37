// Metrics: what the engine has done since it was made, as counters that only rise and gauges of the
// last step. The engine thread publishes once a step; any thread reads a consistent copy.
#pragma once

#include <cstdint>
#include <mutex>

namespace lorica::engine {

struct MetricValues {
  // Requests.
  int64_t submitted = 0;
  int64_t finished = 0;  // by stop or length
  int64_t cancelled = 0;
  int64_t failed = 0;
  // Tokens.
  int64_t prompt_tokens = 0;     // of prompts, each counted once, when it is complete
  int64_t generated_tokens = 0;  // of answers
  // Steps that ran the model.
  int64_t steps = 0;
  int64_t rows = 0;          // tokens through the model, recomputed ones included
  int64_t adapter_rows = 0;  // of them with an adapter
  int64_t segments = 0;      // summed over steps
  int64_t max_segments = 0;  // in one step
  int64_t preemptions = 0;
  int64_t reused_tokens = 0;  // found in K/V pages of an equal prefix
  // Speculation: rows whose token was a guess, and how many of these were right.
  int64_t drafted_tokens = 0;
  int64_t accepted_tokens = 0;
  // Time in nanoseconds, by the trace of thread 0.
  int64_t step_ns = 0;
  int64_t lora_ns = 0;  // in LoRA kernels of their own, the expand in an epilogue not among them
  int64_t first_tokens = 0;
  int64_t first_token_ns = 0;  // from Submit to the first token, summed over first_tokens
  // Gauges.
  int64_t running = 0;
  int64_t waiting = 0;
  int64_t kv_pages = 0;
  int64_t kv_pages_used = 0;
  int64_t kv_pages_cached = 0;  // free, and kept for reuse

  // Segments a step, and the part of a step's time that LoRA kernels took; 0 before any step.
  double MeanSegments() const;
  double LoraShare() const;
};

class Metrics {
 public:
  void Publish(const MetricValues& values);
  MetricValues Read() const;

 private:
  mutable std::mutex mutex_;
  MetricValues values_;  // guarded by mutex_
};

}  // namespace lorica::engine
