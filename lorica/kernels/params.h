// What kernels take: raw pointers, sizes and strides in structs with named fields. Kernels are
// functions of (Params, TeamMember), called by every thread of a region with the same Params;
// they open no region and meet only at TeamMember::Sync. All activations are f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lorica/base/buffer.h"
#include "lorica/base/dtype.h"
#include "lorica/base/trace.h"
#include "lorica/lora/plan.h"
#include "lorica/lora/segments.h"
#include "lorica/lora/weight_table.h"

namespace lorica::kernels {

// How a packed weight lies in memory; known to the backend that packed it.
enum class WeightLayout : uint8_t {
  kPanelsBf16,    // panels of 16 columns; a 64-byte row per k pair: lane j = W[j][k] << 16 |
                  // W[j][k+1]
  kPanelsF16,     // panels of 16 columns; a 64-byte row per k pair: 16 halves of k, 16 of k + 1
  kPanelsF32,     // panels of 16 columns; a 64-byte row per k
  kPanelsI8,      // panels of 16 columns (cpu/quant.h): bytes, an f32 scale a column
  kPanelsQ8_0,    // bytes, an f16 scale a block of 32
  kPanelsQ4_0,    // nibbles, an f16 scale a block of 32
  kPanelsQ4_1,    // nibbles, an f16 scale and minimum a block of 32
  kPanelsQ4_K,    // nibbles, the scales and minima of a super-block of 256
  kPanelsQ6_K,    // nibbles and two bits, the scales of a super-block
  kRowsF32,       // row-major f32 [N, K]: the reference backend's
  kRowsF32Quant,  // the same, of quantised weights: x is quantised too
  kFractals16,    // 16-bit fractals in panels of 128 columns (ascend/base_linear.h)
};

// A base weight W [N, K] in a backend's layout. Owns its bytes.
struct Weight {
  WeightLayout layout = WeightLayout::kPanelsBf16;
  Buffer data;
  Buffer scales;  // of the quantised panels
  int64_t k = 0;
  int64_t n = 0;
};

// Where PackWeight reads rows from, so that a model streams into its packed form without a second
// copy. Row n as f32 [K]. Several threads call ReadRow at once, for different rows.
class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual int64_t n() const = 0;
  virtual int64_t k() const = 0;
  virtual void ReadRow(int64_t n, std::span<float> row) const = 0;
  // What row n is stored as, and its bytes: for layouts that keep blocks as they are.
  virtual DType stored() const { return DType::kF32; }
  virtual const std::byte* StoredRow(int64_t) const { return nullptr; }
};

// How activations enter a linear. float32: as they are. bfloat16: rounded to bf16 first (nearest
// even), so that a bf16 dot and f32 FMA agree bit for bit.
enum class ActivationType : uint8_t { kF32, kBf16 };

// One element-wise step after the sums, in this fixed order: base sum, + tiles in order, x column
// factor, + bias (base's or slot's), + scaled LoRA bias, then `residual`.
struct Epilogue {
  const float* bias = nullptr;  // [N] of the base, or null
  bool add_to_output = false;   // y += result (the residual stream), else y = result
};

// One site of a call.
struct LinearPart {
  const Weight* weight = nullptr;
  lora::SiteId site;
  float* y = nullptr;    // [rows, N]
  int64_t y_stride = 0;  // floats from row to row
  Epilogue epilogue;
};

// What becomes of a call's parts once they are complete.
enum class Combine : uint8_t {
  kNone,
  kSwiGlu,  // of two parts, gate and up: y of gate becomes silu(gate) * up
};

// LoraLinear: y = x * W^T (+ LoRA) for the sites that read the same x. Without LoRA (`plan` null
// or empty) it is the base product alone and calls no LoRA kernel.
struct LinearParams {
  const float* x = nullptr;  // [rows, K]
  int64_t rows = 0;
  int64_t x_stride = 0;
  int64_t k = 0;
  ActivationType activation_type = ActivationType::kF32;
  std::span<const LinearPart> parts;  // at most lora::kMaxCallSites
  Combine combine = Combine::kNone;

  const lora::LoraPlan* plan = nullptr;
  const lora::SegmentTable* segments = nullptr;
  const lora::WeightTable* table = nullptr;
  float* s_scratch = nullptr;  // plan->s_floats floats, shared by the team
  float* packed_x = nullptr;   // Backend::PackedInputFloats(rows, k) floats, shared by the team
  Trace* trace = nullptr;      // counted by thread 0, may be null
};

// y[r] = x[r] / sqrt(mean(x[r]^2) + epsilon) * weight. Rows of `width` floats.
struct RmsNormParams {
  const float* x = nullptr;
  float* y = nullptr;  // may be x
  int64_t rows = 0;
  int64_t width = 0;
  int64_t x_stride = 0;
  int64_t y_stride = 0;
  const float* weight = nullptr;  // [width]
  float epsilon = 1e-5f;
};

// Rotates q and k in place. KvWrite of the same rows may follow without a Sync: both share (row, kv
// head) pairs out alike.
// Half-split (Hugging Face) pairing: (i, i + rotary_dims / 2).
struct RopeParams {
  float* q = nullptr;    // [rows, heads, head_dim]
  float* k = nullptr;    // [rows, kv_heads, head_dim]; rotated in place
  int64_t q_stride = 0;  // floats from row to row
  int64_t k_stride = 0;
  int64_t rows = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t rotary_dims = 0;
  const int32_t* positions = nullptr;  // [rows]
  const float* cos_table = nullptr;    // [max_positions, rotary_dims / 2]
  const float* sin_table = nullptr;
};

// RMSNorm over each head of q or k (Qwen3) is RmsNormParams with rows = rows * heads and
// width = head_dim, on dense rows.

// Layout of K and V pages, as a value. A page holds `page_tokens` (16) positions of every layer.
// One layer of one page: for each kv head K [head_dim][16 positions], then V [16 positions]
// [head_dim]. K has positions as lanes, so that a score is one chain along head_dim and no position
// touches its neighbour. int8: between K and V an f32 scale of K for each position, then one of V;
// an element is a whole number in [-127, 127] times the scale of its position (ScaleOfInput).
struct KvLayout {
  DType dtype = DType::kF32;  // f32, bf16, f16 or int8
  int32_t page_tokens = 16;
  int32_t layers = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;

  int64_t ElementBytes() const { return ElementsToBytes(dtype, 1); }
  bool has_scales() const { return dtype == DType::kI8; }
  // K or V of a head in a page, and all its scales.
  int64_t HeadBytes() const { return int64_t{head_dim} * page_tokens * ElementBytes(); }
  int64_t ScaleBytes() const {
    return has_scales() ? 2 * page_tokens * static_cast<int64_t>(sizeof(float)) : 0;
  }
  // Where these begin in a layer of a page.
  int64_t KOffset(int64_t kv_head) const { return kv_head * (2 * HeadBytes() + ScaleBytes()); }
  int64_t KScaleOffset(int64_t kv_head) const { return KOffset(kv_head) + HeadBytes(); }
  int64_t VScaleOffset(int64_t kv_head) const { return KScaleOffset(kv_head) + ScaleBytes() / 2; }
  int64_t VOffset(int64_t kv_head) const { return KScaleOffset(kv_head) + ScaleBytes(); }
  int64_t LayerBytes() const { return KOffset(kv_heads); }
  int64_t PageBytes() const { return LayerBytes() * layers; }
};
inline constexpr int32_t kPageTokens = 16;

// One sequence's rows in a step.
struct AttentionSequence {
  int32_t row_begin = 0;  // in q and out
  int32_t rows = 0;
  int32_t position_begin = 0;      // absolute position of its first row
  const int32_t* pages = nullptr;  // page ids by position / 16, covering position_begin + rows
};

// Writes K and V of the step's rows, which the sequences cover, into their pages (rounded to the
// page's type).
struct KvWriteParams {
  const float* k = nullptr;  // [rows, kv_heads * head_dim]
  const float* v = nullptr;
  int64_t k_stride = 0;
  int64_t v_stride = 0;
  KvLayout layout;
  int32_t layer = 0;
  std::byte* pages = nullptr;  // page p begins at pages + p * layout.PageBytes()
  std::span<const AttentionSequence> sequences;
};

// out[row] = softmax(q * K^T * scale, causal) * V, K and V read from pages as stored. Partials of
// 256 absolute positions, merged in order: a row's bits depend on its own sequence alone.
struct AttentionParams {
  const float* q = nullptr;  // [rows, heads * head_dim]
  float* out = nullptr;      // [rows, heads * head_dim]
  int64_t q_stride = 0;
  int64_t out_stride = 0;
  int32_t heads = 0;
  float scale = 1.0f;
  KvLayout layout;
  int32_t layer = 0;
  const std::byte* pages = nullptr;
  std::span<const AttentionSequence> sequences;
  float* scratch = nullptr;    // [threads][scratch_floats], shared by the team
  int64_t scratch_floats = 0;  // Backend::AttentionScratchFloats
};
// What attention of a model is sized by.
struct AttentionShape {
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int64_t max_positions = 0;  // of a sequence
};
inline constexpr int32_t kAttentionBlock = 256;

// y[r] = silu(gate[r]) * up[r]
struct SwiGluParams {
  const float* gate = nullptr;  // [rows, width]
  const float* up = nullptr;
  float* y = nullptr;
  int64_t rows = 0;
  int64_t width = 0;
  int64_t gate_stride = 0;
  int64_t up_stride = 0;
  int64_t y_stride = 0;
};

// What a call with Combine::kSwiGlu ends with.
inline SwiGluParams SwiGluOf(const LinearParams& p) {
  SwiGluParams params;
  params.gate = p.parts[0].y;
  params.up = p.parts[1].y;
  params.y = p.parts[0].y;
  params.rows = p.rows;
  params.width = p.parts[0].weight->n;
  params.gate_stride = p.parts[0].y_stride;
  params.up_stride = p.parts[1].y_stride;
  params.y_stride = p.parts[0].y_stride;
  return params;
}

// y[r] = row tokens[r] of the table (a Weight, since a tied head shares it), as f32.
struct EmbedParams {
  const Weight* table = nullptr;  // [vocab, D]
  std::span<const int32_t> tokens;
  float* y = nullptr;  // [tokens, D]
  int64_t y_stride = 0;
};

// For each row of logits [rows, vocab]: greatest value, its lowest index, and the sum of
// exp(logit - greatest); sums split at fixed borders of the vocabulary, never by thread.
struct RowStats {
  float max = 0.0f;
  int32_t argmax = 0;    // ties to the lower id
  double sum_exp = 0.0;  // of exp(logit - max)
  bool finite = true;    // every logit is finite
};
// Sums over the vocabulary are cut at multiples of this many ids.
inline constexpr int64_t kVocabBlock = 4096;
constexpr int64_t VocabBlocks(int64_t vocab) { return (vocab + kVocabBlock - 1) / kVocabBlock; }
// Of a row's ids in one block: where threads share a row.
struct VocabBlockStats {
  float max = 0.0f;
  bool finite = true;
  double sum_exp = 0.0;
};
struct LogitStatsParams {
  const float* logits = nullptr;
  int64_t rows = 0;
  int64_t vocab = 0;
  int64_t stride = 0;
  RowStats* stats = nullptr;          // [rows]
  VocabBlockStats* blocks = nullptr;  // [rows][VocabBlocks(vocab)], scratch
};

}  // namespace lorica::kernels
