// Engine: continuous batching of many tenants on one base model. One thread owns sequences, pages
// and batch and calls Step(); any thread may call Submit and Cancel, which only queue and never
// wait for a step. Adapters are made hot by LoadAdapter on the caller's (loader) thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lorica/base/machine_context.h"
#include "lorica/base/status.h"
#include "lorica/engine/metrics.h"
#include "lorica/engine/request.h"
#include "lorica/formats/tokenizer.h"
#include "lorica/lora/cache.h"
#include "lorica/lora/registry.h"
#include "lorica/model/model.h"

namespace lorica::engine {

struct EngineOptions {
  int32_t max_num_seqs = 32;
  int32_t max_num_batched_tokens = 512;
  int64_t kv_bytes = 0;          // 0: a quarter of free memory
  DType kv_dtype = DType::kF32;  // resolved from --kv-cache-dtype
  int64_t adapter_bytes = int64_t{1} << 30;
  int32_t max_adapters = 1024;  // slots
  int64_t max_model_len = 0;    // 0: the model's
};

class Engine {
 public:
  // All must outlive the engine; the tokenizer is shared.
  static Result<std::unique_ptr<Engine>> Create(const model::Model* model,
                                                std::shared_ptr<const formats::Tokenizer> tokenizer,
                                                const EngineOptions& options,
                                                MachineContext* context);
  ~Engine();

  // Publishes `adapter` under `name` after making it hot. Any thread but the engine's; the Result
  // says why not. Requests in flight are untouched.
  Status PublishAdapter(const std::string& name, std::shared_ptr<const lora::Adapter> adapter);

  // Checks the request, pins its adapter's version and queues it. Never waits for a step.
  // INVALID_ARGUMENT, OUT_OF_RANGE (prompt longer than the context), NOT_FOUND (adapter).
  Result<RequestId> Submit(Request request, EventSink sink);
  // The request ends with kCancelled at the next step. Unknown or ended ids are ignored.
  void Cancel(RequestId id);

  // One step: choose who runs, build the batch, group, plan, compute, sample, answer. Returns
  // whether anything is left to do. The engine thread only.
  bool Step();
  // Steps until nothing is left to do.
  void RunUntilIdle();
  // Blocks until there is something to do, or `Stop` was called (then false). Engine thread.
  bool WaitForWork();
  void Stop();

  lora::Registry& registry();
  const lora::AdapterCache& adapters() const;
  const EngineOptions& options() const;  // with every default resolved
  const Metrics& metrics() const;
  // Every owner agrees with every other; between steps.
  Status CheckIntegrity() const;

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lorica::engine
