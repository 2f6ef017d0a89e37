// What benchmarks run on: models of known shapes with random weights, or a real one, and random
// adapters for them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lorica/base/machine_context.h"
#include "lorica/base/status.h"
#include "lorica/kernels/backend.h"
#include "lorica/lora/adapter.h"
#include "lorica/model/model.h"

namespace lorica::bench {

// "1.2b": 16 layers, 2048 wide, ffn 8192, 8 kv heads, a vocabulary of 128k. "smollm2": the shape
// of SmolLM2-135M.
Result<model::ModelConfig> ModelShape(std::string_view name);

struct BenchModelOptions {
  std::string path;  // empty: random weights of `shape`
  std::string shape = "1.2b";
  std::string dtype = "float32";
  std::string weights = "auto";
};

struct BenchModel {
  std::unique_ptr<MachineContext> context;  // every core; accounts the weights
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<model::Model> model;
};
Result<BenchModel> OpenBenchModel(const BenchModelOptions& options);

struct RandomAdapterSpec {
  int32_t rank = 16;
  uint32_t seed = 0;                               // its digest follows from rank and seed
  std::vector<lora::Projection> projections = {};  // in every layer; empty: all seven
};
bool ActsOn(const RandomAdapterSpec& spec, lora::Projection projection);
// bf16 factors.
Result<std::shared_ptr<const lora::Adapter>> RandomAdapter(const model::Model& model,
                                                           const RandomAdapterSpec& spec,
                                                           MemoryLedger* ledger);

}  // namespace lorica::bench
