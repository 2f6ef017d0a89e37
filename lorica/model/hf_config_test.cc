#include "lorica/model/hf_config.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lorica/model/norm_rope.h"

namespace lorica::model {
namespace {

ModelConfig ConfigOf(Family family) {
  ModelConfig config;
  config.family = family;
  config.layers = 3;
  config.width = 64;
  config.ffn_width = 96;
  config.vocab = 320;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 32;
  config.max_positions = 777;
  config.norm_epsilon = 3e-6;
  config.score_scale = 0.25;
  config.rope.theta = 54321.0;
  config.qkv_bias = family == Family::kQwen2;
  config.qk_norm = family == Family::kQwen3;
  config.eos_token_ids = {5, 7};
  config.bos_token_id = 2;
  config.layer.resize(3);
  return config;
}

TEST(HfConfig, ReadsBackAsItWas) {
  for (const Family family : {Family::kLlama, Family::kMistral, Family::kQwen2, Family::kQwen3}) {
    for (const bool tied : {false, true}) {
      ModelConfig config = ConfigOf(family);
      config.tied_head = tied;
      const Result<std::string> text = ToHfConfig(config);
      ASSERT_TRUE(text.ok()) << text.status().message();
      const Result<ModelConfig> read = ParseModelConfig(*text, "config.json");
      ASSERT_TRUE(read.ok()) << read.status().message();
      EXPECT_EQ(CheckServed(*read), OkStatus());
      EXPECT_EQ(read->family, family);
      EXPECT_EQ(read->layers, config.layers);
      EXPECT_EQ(read->width, config.width);
      EXPECT_EQ(read->ffn_width, config.ffn_width);
      EXPECT_EQ(read->vocab, config.vocab);
      EXPECT_EQ(read->heads, config.heads);
      EXPECT_EQ(read->kv_heads, config.kv_heads);
      EXPECT_EQ(read->head_dim, config.head_dim);
      EXPECT_EQ(read->max_positions, config.max_positions);
      EXPECT_EQ(read->tied_head, tied);
      EXPECT_EQ(read->qkv_bias, config.qkv_bias);
      EXPECT_EQ(read->o_bias, config.o_bias);
      EXPECT_EQ(read->mlp_bias, config.mlp_bias);
      EXPECT_EQ(read->qk_norm, config.qk_norm);
      EXPECT_EQ(read->norm_epsilon, config.norm_epsilon);
      EXPECT_EQ(read->rope.kind, RopeKind::kDefault);
      EXPECT_EQ(read->rope.theta, config.rope.theta);
      EXPECT_EQ(read->eos_token_ids, config.eos_token_ids);
      EXPECT_EQ(read->bos_token_id, config.bos_token_id);
      for (const LayerConfig& layer : read->layer) EXPECT_EQ(layer.sliding_window, 0);
    }
  }
}

// As a GGUF file says them: by what each plain frequency is divided.
TEST(HfConfig, FindsLlama3sPositionsInTheirDivisors) {
  ModelConfig config = ConfigOf(Family::kLlama);
  const std::vector<float> plain = InverseFrequencies(config.rope, config.head_dim);
  for (const int64_t original : {64, 8192}) {
    config.rope.frequency_divisors.clear();
    RopeConfig llama3 = config.rope;
    llama3.kind = RopeKind::kLlama3;
    llama3.factor = 8.0;
    llama3.original_max_positions = original;
    const std::vector<float> scaled = InverseFrequencies(llama3, config.head_dim);
    for (size_t i = 0; i < plain.size(); ++i) {
      config.rope.frequency_divisors.push_back(plain[i] / scaled[i]);
    }
    const Result<std::string> text = ToHfConfig(config);
    ASSERT_TRUE(text.ok()) << text.status().message();
    const Result<ModelConfig> read = ParseModelConfig(*text, "config.json");
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->rope.kind, RopeKind::kLlama3);
    const std::vector<float> found = InverseFrequencies(read->rope, config.head_dim);
    for (size_t i = 0; i < scaled.size(); ++i) EXPECT_NEAR(found[i] / scaled[i], 1.0, 1e-6);
  }
}

TEST(HfConfig, RefusesWhatItCannotSay) {
  ModelConfig scaled = ConfigOf(Family::kLlama);
  scaled.rope.frequency_divisors.assign(16, 1.5f);
  scaled.rope.frequency_divisors[3] = 9.0f;
  EXPECT_EQ(ToHfConfig(scaled).status().code(), StatusCode::kUnimplemented);
  ModelConfig biased = ConfigOf(Family::kLlama);
  biased.qkv_bias = true;
  EXPECT_EQ(ToHfConfig(biased).status().code(), StatusCode::kUnimplemented);
}

TEST(HfConfig, NamesEachTensorOnce) {
  std::vector<NamedShape> tensors = TensorsOf(ConfigOf(Family::kQwen2));
  EXPECT_EQ(tensors.size(), 3u + 3 * (2 + 7 + 3));
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(tensors.begin(), tensors.end(),
                                        [](auto& a, auto& b) { return a.name == b.name; });
  EXPECT_EQ(twice, tensors.end());
}

}  // namespace
}  // namespace lorica::model
