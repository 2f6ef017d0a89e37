// EngineOptions and how they are resolved against a model. A value.
#pragma once

#include <cstdint>

#include "lorica/base/machine_context.h"
#include "lorica/base/status.h"
#include "lorica/kernels/params.h"
#include "lorica/lora/cache.h"
#include "lorica/model/model.h"

namespace lorica::engine {

// Where guesses at coming tokens are from. They change no bit of an answer.
enum class Speculation : uint8_t { kOff, kNgram };

struct EngineOptions {
  int32_t max_num_seqs = 32;
  int32_t max_num_batched_tokens = 512;
  int64_t kv_bytes = 0;                      // 0: a quarter of free memory
  DType kv_dtype = DType::kF32;              // resolved from --kv-cache-dtype
  int64_t adapter_bytes = int64_t{1} << 30;  // of the arena: adapters in use
  int64_t cold_bytes = int64_t{1} << 30;     // of factors in host memory behind it
  int32_t max_adapters = 1024;               // slots
  int64_t adapter_quantum = 256;             // rows that a fetched adapter runs at least
  bool prefix_reuse = true;                  // share K/V pages of equal prefixes
  Speculation speculation = Speculation::kOff;
  int64_t max_model_len = 0;  // 0: the model's
};

// The same with every default filled in. INVALID_ARGUMENT names the flag.
Result<EngineOptions> ResolveOptions(EngineOptions options, const model::Model& model);

kernels::KvLayout KvLayoutOf(const model::ModelConfig& config, DType kv_dtype);
lora::AdapterCache::Options CacheOptionsOf(const EngineOptions& options, const model::Model& model,
                                           MachineContext* context);

}  // namespace lorica::engine
