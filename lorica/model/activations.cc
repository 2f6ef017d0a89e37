#include "lorica/model/activations.h"

#include <algorithm>
#include <utility>

namespace lorica::model {

Result<Rows> Rows::Allocate(int64_t rows, int64_t width, MemoryLedger* ledger) {
  Rows result;
  result.width_ = width;
  LORICA_ASSIGN_OR_RETURN(result.storage_,
                          Buffer::Allocate(rows * width * static_cast<int64_t>(sizeof(float)),
                                           MemoryTag::kActivations, ledger));
  return result;
}

Result<Activations> Activations::Allocate(const ModelConfig& config, const Sizes& sizes,
                                          const kernels::Backend& backend, MemoryLedger* ledger) {
  const int64_t q_width = int64_t{config.heads} * config.head_dim;
  const int64_t kv_width = int64_t{config.kv_heads} * config.head_dim;
  int64_t packed = backend.PackedInputFloats(sizes.logit_rows, config.width);
  for (const int64_t k : {int64_t{config.width}, q_width, int64_t{config.ffn_width}}) {
    packed = std::max(packed, backend.PackedInputFloats(sizes.rows, k));
  }
  const int64_t scratch = backend.AttentionScratchFloats({.heads = config.heads,
                                                          .kv_heads = config.kv_heads,
                                                          .head_dim = config.head_dim,
                                                          .max_positions = sizes.positions});

  Activations a;
  const std::pair<Rows*, std::pair<int64_t, int64_t>> buffers[] = {
      {&a.residual, {sizes.rows, config.width}},
      {&a.normed, {sizes.rows, config.width}},
      {&a.q, {sizes.rows, q_width}},
      {&a.k, {sizes.rows, kv_width}},
      {&a.v, {sizes.rows, kv_width}},
      {&a.attention, {sizes.rows, q_width}},
      {&a.gate, {sizes.rows, config.ffn_width}},
      {&a.up, {sizes.rows, config.ffn_width}},
      {&a.packed_x, {1, packed}},
      {&a.scratch, {sizes.threads, scratch}},
      {&a.head_input, {sizes.logit_rows, config.width}},
      {&a.logits, {sizes.logit_rows, config.vocab}},
  };
  for (const auto& [rows, shape] : buffers) {
    LORICA_ASSIGN_OR_RETURN(*rows, Rows::Allocate(shape.first, shape.second, ledger));
  }
  return a;
}

}  // namespace lorica::model
