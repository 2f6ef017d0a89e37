// Engine: continuous batching of many tenants on one base model. One thread owns sequences, pages
// and batch and calls Step(); any thread may call Submit and Cancel, which only queue and never
// wait for a step. Adapters that are not hot are fetched by a loader thread of the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lorica/base/machine_context.h"
#include "lorica/base/status.h"
#include "lorica/engine/engine_options.h"
#include "lorica/engine/metrics.h"
#include "lorica/engine/request.h"
#include "lorica/formats/tokenizer.h"
#include "lorica/lora/adapter_tiers.h"
#include "lorica/lora/cache.h"
#include "lorica/lora/registry.h"
#include "lorica/model/model.h"

namespace lorica::engine {

class Engine {
 public:
  // `model` and `context` must outlive the engine. The tokenizer is shared; null: events have no
  // text, and requests with stop strings are refused.
  static Result<std::unique_ptr<Engine>> Create(const model::Model* model,
                                                std::shared_ptr<const formats::Tokenizer> tokenizer,
                                                const EngineOptions& options,
                                                MachineContext* context);
  ~Engine();

  // Makes `adapter` the current version of `name`; requests in flight end on theirs. It is made hot
  // at once if that evicts nothing. Without a source it can be fetched from nowhere and stays in
  // memory. Any thread but the engine's. OUT_OF_RANGE with both figures if the arena could never
  // hold it.
  Status PublishAdapter(const std::string& name, std::shared_ptr<const lora::Adapter> adapter);
  Status PublishAdapter(const std::string& name, const lora::AdapterSource& source,
                        std::shared_ptr<const lora::Adapter> adapter);

  // Checks the request, pins its adapter's version and queues it. Never waits for a step.
  // INVALID_ARGUMENT, OUT_OF_RANGE (longer than the context or than all K/V pages), NOT_FOUND
  // (adapter), FAILED_PRECONDITION (after Stop).
  Result<RequestId> Submit(Request request, EventSink sink);
  // The request ends with kCancelled at the next step. Unknown or ended ids are ignored.
  void Cancel(RequestId id);

  // One step: choose who runs, build the batch, group, plan, compute, sample, answer. Returns
  // whether anything is left to do. The engine thread only.
  bool Step();
  // Steps until nothing is left to do, or `Stop` was called.
  void RunUntilIdle();
  // Blocks until there is something to do, or `Stop` was called (then false). Engine thread.
  bool WaitForWork();
  // Any thread. Requests that are left get no further event.
  void Stop();

  lora::Registry& registry();
  const lora::AdapterCache& adapters() const;
  lora::AdapterTiers& tiers();
  const EngineOptions& options() const;  // with every default resolved
  const Metrics& metrics() const;        // any thread reads it
  // Every owner agrees with every other; between steps.
  Status CheckIntegrity() const;

 private:
  friend void AssumePromptsComputed(Engine* engine);  // assume_prompts.h
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lorica::engine
