// ModelConfig: one description of a Llama-family decoder, read from config.json or from GGUF
// metadata. It has the fields of every family that the project will serve (sources: the families'
// config.json; adapters.md names the traps), so that a new family fills fields in and moves no
// wall. A family or a value that is not built yet is refused by name. Plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lorica/base/dtype.h"
#include "lorica/base/status.h"

namespace lorica::formats {
class GgufFile;
}

namespace lorica::model {

enum class Family : uint8_t {
  kLlama,  // Llama 2 and 3.x, SmolLM2
  kMistral,
  kQwen2,
  kQwen3,
  kSmolLm3,
  kGemma2,
  kGemma3,
  kPhi3,
  kGranite,
};
std::string_view FamilyName(Family family);

enum class Activation : uint8_t { kSilu, kGeluTanh };
enum class RopeKind : uint8_t { kDefault, kLinear, kLlama3, kYarn, kLongrope };

struct RopeConfig {
  RopeKind kind = RopeKind::kDefault;
  double theta = 10000.0;
  double factor = 1.0;
  double low_freq_factor = 1.0;   // llama3
  double high_freq_factor = 4.0;  // llama3
  int64_t original_max_positions = 0;
  double attention_factor = 1.0;  // yarn, longrope: on cos and sin
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  std::vector<double> short_factors;  // longrope
  std::vector<double> long_factors;
  double partial_rotary_factor = 1.0;
  // GGUF's rope_freqs: each inverse frequency is divided by its own. Empty: none.
  std::vector<float> frequency_divisors;
};

struct LayerConfig {
  bool use_rope = true;        // false: SmolLM3's layers without positions
  int64_t sliding_window = 0;  // 0: full attention
  bool local_rope = false;     // Gemma 3: rope_local instead of rope
};

struct ModelConfig {
  Family family = Family::kLlama;
  int32_t layers = 0;
  int32_t width = 0;      // D
  int32_t ffn_width = 0;  // F
  int32_t vocab = 0;      // rows of the embedding
  int32_t heads = 0;      // H
  int32_t kv_heads = 0;   // G
  int32_t head_dim = 0;   // E
  int64_t max_positions = 0;
  bool tied_head = false;

  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;            // RMS over each head of q and k, before rope
  bool norm_plus_one = false;      // the norm's weight is 1 + w
  bool post_norms = false;         // Gemma: four norms a layer
  bool fused_projections = false;  // Phi-3: qkv_proj, gate_up_proj
  double norm_epsilon = 1e-5;
  Activation activation = Activation::kSilu;
  double score_scale = 0.0;  // multiplies q k^T
  double embedding_scale = 1.0;
  double residual_scale = 1.0;
  double logits_divisor = 1.0;
  double attention_softcap = 0.0;  // 0: none
  double final_softcap = 0.0;
  RopeConfig rope;
  std::optional<RopeConfig> rope_local;
  std::vector<LayerConfig> layer;  // [layers]

  DType checkpoint_dtype = DType::kF32;  // what the weights were stored in
  std::vector<int32_t> eos_token_ids;
  std::optional<int32_t> bos_token_id;
};

// `text` is config.json; `name` its path, for messages.
Result<ModelConfig> ParseModelConfig(std::string_view text, const std::string& name);
Result<ModelConfig> ReadGgufConfig(const formats::GgufFile& file);
// OK, or UNIMPLEMENTED naming the family or the field whose value is not served yet.
Status CheckServed(const ModelConfig& config);

}  // namespace lorica::model
