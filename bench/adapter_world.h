// AdapterWorld: a model, many adapters of rank 16 in files, and engines over them, for the
// benchmark of adapters that come and go. Single-threaded but for Publish, which any thread may
// call.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/adapters_bench.h"
#include "lorica/base/machine_context.h"
#include "lorica/engine/engine.h"
#include "lorica/kernels/backend.h"
#include "lorica/lora/adapter_tiers.h"
#include "lorica/model/model.h"

namespace lorica::bench {

class AdapterWorld {
 public:
  // Loads the model and writes those adapters that --folder does not hold yet.
  static Result<std::unique_ptr<AdapterWorld>> Make(const AdaptersBenchOptions& options);
  ~AdapterWorld();

  struct EngineRoom {
    int32_t hot = 0;   // adapters that the arena holds
    int32_t cold = 0;  // that host memory holds beside it
  };
  // Prefixes are not reused, so that every prompt is computed.
  Result<std::unique_ptr<engine::Engine>> Open(const EngineRoom& room);
  // The content of file `index` under `name`; of all files on all engines, each read once.
  Status Publish(engine::Engine* engine, const std::string& name, int32_t index);
  Status PublishAll(const std::vector<engine::Engine*>& engines, int32_t adapters);

  struct Question {
    std::string adapter;
    uint32_t seed = 0;
    int32_t prompt = 0;
    int32_t tokens = 0;
  };
  static engine::Request Ask(const Question& question);

  // The adapter of each request, by its index, drawn from a popularity by weight.
  static std::vector<int32_t> Draw(const std::vector<double>& weights, int32_t requests,
                                   uint32_t seed);

  struct Traffic {
    double seconds = 0.0;
    std::vector<double> latency;  // seconds, of each request
    lora::AdapterTiers::Totals totals;
    double tokens_per_second(int32_t tokens) const {
      return static_cast<double>(latency.size()) * tokens / seconds;
    }
    void Add(const Traffic& more);
  };
  struct Length {  // of each request, in tokens
    int32_t prompt = 1;
    int32_t tokens = 1;
  };
  // Requests of the adapters `drawn`, --clients at a time.
  Result<Traffic> Serve(engine::Engine* engine, const std::vector<int32_t>& drawn,
                        const Length& length);

  const AdaptersBenchOptions& options() const { return options_; }
  MachineContext& context() { return context_; }
  const model::Model& model() const { return *model_; }
  const kernels::Backend* backend() const { return backend_.get(); }
  model::ComputeType type() const { return type_; }
  int64_t tile_bytes() const { return tile_bytes_; }  // of one adapter, in the arena
  std::string PathOf(int32_t index) const { return folder_ + "/" + std::to_string(index); }

 private:
  explicit AdapterWorld(const AdaptersBenchOptions& options);
  Status LoadModel();
  Status WriteAdapters();

  const AdaptersBenchOptions options_;
  std::string folder_;
  MachineContext context_;
  std::unique_ptr<kernels::Backend> backend_;
  model::ComputeType type_ = model::ComputeType::kAuto;
  std::unique_ptr<model::Model> model_;
  int64_t tile_bytes_ = 0;
};

}  // namespace lorica::bench
