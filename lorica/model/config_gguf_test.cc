#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>

#include "lorica/formats/gguf.h"
#include "lorica/formats/test_gguf.h"
#include "lorica/model/config.h"

namespace lorica::model {
namespace {

using formats::testing::GgufBuilder;
using formats::testing::Raw;
using formats::testing::Text;

// A llama file that a test changes by key and tensor; f32 tensors of zeros but for rope_freqs.
struct GgufBytes {
  std::map<std::string, std::string> keys;  // type and value
  std::map<std::string, std::vector<int64_t>> tensors;
  float rope_freq = 2.0f;

  void U32(const std::string& key, uint32_t value) { keys[key] = Raw<uint32_t>(4) + Raw(value); }
  void F32(const std::string& key, float value) { keys[key] = Raw<uint32_t>(6) + Raw(value); }
  void String(const std::string& key, const std::string& value) {
    keys[key] = Raw<uint32_t>(8) + Text(value);
  }
  void Tokens(uint64_t count) {
    std::string value = Raw<uint32_t>(9) + Raw<uint32_t>(8) + Raw<uint64_t>(count);
    for (uint64_t i = 0; i < count; ++i) value += Text("t" + std::to_string(i));
    keys["tokenizer.ggml.tokens"] = value;
  }

  explicit GgufBytes(const std::string& arch = "llama") {
    String("general.architecture", arch);
    U32(arch + ".block_count", 2);
    U32(arch + ".embedding_length", 64);
    U32(arch + ".feed_forward_length", 128);
    U32(arch + ".attention.head_count", 4);
    U32(arch + ".attention.head_count_kv", 2);
    U32(arch + ".context_length", 2048);
    F32(arch + ".attention.layer_norm_rms_epsilon", 1e-5f);
    tensors["token_embd.weight"] = {64, 10};  // ne: columns, rows
  }

  std::string Bytes() const {
    GgufBuilder gguf;
    for (const auto& [key, value] : keys) {
      uint32_t type = 0;
      std::memcpy(&type, value.data(), sizeof(type));
      gguf.Key(key, type, value.substr(sizeof(type)));
    }
    for (const auto& [name, ne] : tensors) {
      gguf.Tensor(name, ne, formats::testing::kTensorF32, gguf.data.size());
      int64_t elements = 1;
      for (const int64_t n : ne) elements *= n;
      for (int64_t i = 0; i < elements; ++i) {
        gguf.data += Raw(name == "rope_freqs.weight" ? rope_freq : 0.0f);
      }
      gguf.data.resize((gguf.data.size() + 31) / 32 * 32);
    }
    return gguf.Bytes();
  }
};

Result<ModelConfig> Read(const GgufBytes& gguf) {
  const std::string bytes = gguf.Bytes();
  auto file = formats::GgufFile::Parse(std::as_bytes(std::span(bytes)), "m.gguf");
  if (!file.ok()) return file.status();
  return ReadGgufConfig(*file);
}

std::string Refusal(const GgufBytes& gguf) {
  const auto config = Read(gguf);
  return config.ok() ? CheckServed(*config).message() : config.status().message();
}
void ExpectRefused(const GgufBytes& gguf, const std::string& part) {
  const std::string message = Refusal(gguf);
  EXPECT_NE(message.find(part), std::string::npos) << "found: " << message;
}

TEST(GgufConfigTest, ReadsALlamaFile) {
  GgufBytes gguf;
  gguf.F32("llama.rope.freq_base", 500000.0f);
  gguf.U32("tokenizer.ggml.eos_token_id", 2);
  gguf.U32("tokenizer.ggml.bos_token_id", 1);
  gguf.Tokens(9);
  const auto config = Read(gguf);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->family, Family::kLlama);
  EXPECT_EQ(config->layers, 2);
  EXPECT_EQ(config->ffn_width, 128);
  EXPECT_EQ(config->vocab, 10);  // the rows; a padded table may have more than tokens
  EXPECT_EQ(config->kv_heads, 2);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->max_positions, 2048);
  EXPECT_EQ(config->norm_epsilon, 1e-5f);
  EXPECT_EQ(config->rope.theta, 500000.0);
  EXPECT_TRUE(config->tied_head);
  EXPECT_FALSE(config->qkv_bias);
  EXPECT_EQ(config->eos_token_ids, (std::vector<int32_t>{2}));
  EXPECT_EQ(config->bos_token_id, 1);
  EXPECT_TRUE(CheckServed(*config).ok());
}

TEST(GgufConfigTest, TensorsTellOfHeadAndBiases) {
  GgufBytes gguf("qwen2");
  gguf.tensors["output.weight"] = {64, 10};
  gguf.tensors["blk.0.attn_q.bias"] = {64};
  const auto config = Read(gguf);
  ASSERT_TRUE(config.ok());
  EXPECT_FALSE(config->tied_head);
  EXPECT_TRUE(config->qkv_bias);
  EXPECT_FALSE(config->o_bias);
}

TEST(GgufConfigTest, HeadSizeMayDifferFromWidthByHeads) {
  GgufBytes gguf("qwen3");
  gguf.U32("qwen3.attention.key_length", 32);
  gguf.U32("qwen3.attention.value_length", 32);
  const auto config = Read(gguf);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->head_dim, 32);
  EXPECT_TRUE(config->qk_norm);
  gguf.U32("qwen3.attention.value_length", 64);
  ExpectRefused(gguf, "value_length");
}

TEST(GgufConfigTest, RopeScaling) {
  GgufBytes gguf;
  gguf.String("llama.rope.scaling.type", "linear");
  gguf.F32("llama.rope.scaling.factor", 4.0f);
  EXPECT_EQ(Read(gguf)->rope.kind, RopeKind::kLinear);
  EXPECT_EQ(Read(gguf)->rope.factor, 4.0);
  gguf.String("llama.rope.scaling.type", "yarn");
  ExpectRefused(gguf, "yarn");
  gguf.String("llama.rope.scaling.type", "wave");
  ExpectRefused(gguf, "\"wave\"");

  GgufBytes divided;
  divided.tensors["rope_freqs.weight"] = {8};
  EXPECT_EQ(Read(divided)->rope.frequency_divisors, std::vector<float>(8, 2.0f));
  divided.rope_freq = 0.0f;
  ExpectRefused(divided, "rope_freqs.weight: expected positive");
  divided.tensors["rope_freqs.weight"] = {4};
  ExpectRefused(divided, "rope_freqs.weight: expected F32 [8]");
  GgufBytes partial;
  partial.U32("llama.rope.dimension_count", 8);
  ExpectRefused(partial, "partial_rotary_factor");
}

TEST(GgufConfigTest, RefusesWhatDoesNotFit) {
  ExpectRefused(GgufBytes("mamba"), "\"mamba\"");
  ExpectRefused(GgufBytes("gemma2"), "gemma2");
  GgufBytes gguf;
  gguf.keys.erase("llama.block_count");
  ExpectRefused(gguf, "llama.block_count");
  gguf = GgufBytes();
  gguf.U32("llama.attention.head_count_kv", 3);
  ExpectRefused(gguf, "multiple of the key-value head count");
  gguf = GgufBytes();
  gguf.Tokens(11);
  ExpectRefused(gguf, "11 tokens");
  gguf = GgufBytes();
  gguf.U32("tokenizer.ggml.eos_token_id", 10);
  ExpectRefused(gguf, "eos_token_id");
  gguf = GgufBytes();
  gguf.tensors.clear();
  ExpectRefused(gguf, "token_embd.weight");
  gguf = GgufBytes();
  gguf.U32("llama.expert_count", 8);
  ExpectRefused(gguf, "expert_count");
  gguf = GgufBytes();
  gguf.U32("llama.attention.sliding_window", 512);
  ExpectRefused(gguf, "sliding_window");
  gguf = GgufBytes();
  gguf.String("general.type", "adapter");
  ExpectRefused(gguf, "\"adapter\"");
  gguf = GgufBytes();
  gguf.String("llama.embedding_length", "64");
  EXPECT_FALSE(Read(gguf).ok());
}

}  // namespace
}  // namespace lorica::model
