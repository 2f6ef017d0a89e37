#include "lorica/engine/engine_options.h"

#include <algorithm>
#include <string>

#include "lorica/engine/kv_allocator.h"

namespace lorica::engine {
namespace {

// A step of more rows gains nothing on any machine, and activations are sized by it.
constexpr int64_t kMostRows = 1 << 16;

Status CheckRange(const char* flag, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return OkStatus();
  return InvalidArgument(std::string(flag) + " is " + std::to_string(value) + "; expected " +
                         std::to_string(least) + " to " + std::to_string(most));
}

}  // namespace

Result<EngineOptions> ResolveOptions(EngineOptions options, const model::Model& model) {
  const model::ModelConfig& config = model.config();
  LORICA_RETURN_IF_ERROR(CheckRange("--max-num-seqs", options.max_num_seqs, 1, kMostRows));
  LORICA_RETURN_IF_ERROR(
      CheckRange("--max-num-batched-tokens", options.max_num_batched_tokens, 1, kMostRows));
  LORICA_RETURN_IF_ERROR(
      CheckRange("--max-model-len", options.max_model_len, 0, config.max_positions));
  LORICA_RETURN_IF_ERROR(CheckRange("--max-loras", options.max_adapters, 1, 1 << 20));
  LORICA_RETURN_IF_ERROR(CheckRange("--kv-bytes", options.kv_bytes, 0, int64_t{1} << 46));
  LORICA_RETURN_IF_ERROR(CheckRange("--adapter-bytes", options.adapter_bytes, 1, int64_t{1} << 46));
  LORICA_RETURN_IF_ERROR(CheckRange("--cold-bytes", options.cold_bytes, 0, int64_t{1} << 46));
  LORICA_RETURN_IF_ERROR(
      CheckRange("--adapter-quantum", options.adapter_quantum, 1, int64_t{1} << 30));
  if (options.kv_dtype != DType::kF32 && options.kv_dtype != DType::kBF16 &&
      options.kv_dtype != DType::kF16 && options.kv_dtype != DType::kI8) {
    return InvalidArgument("--kv-cache-dtype is " + std::string(DTypeName(options.kv_dtype)) +
                           "; expected float32, bfloat16, float16 or int8");
  }
  if (options.max_model_len == 0) options.max_model_len = config.max_positions;
  if (options.kv_bytes == 0) {
    // Free now, with the model loaded; and no more than can ever be used at once.
    const int64_t page_bytes = KvLayoutOf(config, options.kv_dtype).PageBytes();
    const int64_t most = int64_t{options.max_num_seqs} * PagesFor(options.max_model_len);
    options.kv_bytes =
        std::clamp(ReadMachineFacts().available_memory_bytes / 4, page_bytes, most * page_bytes);
  }
  return options;
}

kernels::KvLayout KvLayoutOf(const model::ModelConfig& config, DType kv_dtype) {
  kernels::KvLayout layout;
  layout.dtype = kv_dtype;
  layout.layers = config.layers;
  layout.kv_heads = config.kv_heads;
  layout.head_dim = config.head_dim;
  return layout;
}

lora::AdapterCache::Options CacheOptionsOf(const EngineOptions& options, const model::Model& model,
                                           MachineContext* context) {
  const lora::TilePacker& packer = model.backend().tile_packer();
  lora::AdapterCache::Options result;
  result.sites = model.sites();
  result.arena_bytes = options.adapter_bytes;
  result.slots = options.max_adapters;
  result.packer = &packer;
  result.ledger = &context->ledger;
  for (int32_t layer = 0; layer < model.config().layers; ++layer) {
    for (int p = 0; p < lora::kProjections; ++p) {
      const lora::SiteShape shape =
          model.Shape(model.sites().Linear(layer, static_cast<lora::Projection>(p)));
      result.largest_tile_bytes =
          std::max(result.largest_tile_bytes, packer.TileBytes({shape.k, shape.n, DType::kF32}));
    }
  }
  return result;
}

}  // namespace lorica::engine
