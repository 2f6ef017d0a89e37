#include "lorica/model/config.h"

#include <gtest/gtest.h>

#include <string>

namespace lorica::model {
namespace {

// A config.json of the usual sizes with `extra` fields in front ("..., ").
std::string Config(const std::string& type, const std::string& extra = "") {
  return "{" + extra + "\"model_type\":\"" + type +
         "\",\"hidden_size\":64,\"intermediate_size\":128,\"num_hidden_layers\":8,"
         "\"num_attention_heads\":4,\"vocab_size\":320}";
}

ModelConfig Parse(const std::string& text) {
  auto config = ParseModelConfig(text, "config.json");
  EXPECT_TRUE(config.ok()) << config.status().ToString();
  return config.ok() ? *config : ModelConfig();
}

// The message of a failure, at parsing or because the value is not served.
std::string Refusal(const std::string& text) {
  auto config = ParseModelConfig(text, "config.json");
  if (!config.ok()) return config.status().message();
  return CheckServed(*config).message();
}

void ExpectRefused(const std::string& text, const std::string& part) {
  const std::string message = Refusal(text);
  EXPECT_NE(message.find(part), std::string::npos) << "found: " << message;
}

TEST(ConfigTest, ReadsALlamaConfig) {
  const ModelConfig config = Parse(
      Config("llama",
             "\"num_key_value_heads\":2,\"rms_norm_eps\":1e-5,\"max_position_embeddings\":131072,"
             "\"rope_theta\":500000.0,\"tie_word_embeddings\":true,\"torch_dtype\":\"bfloat16\","
             "\"eos_token_id\":[1,5,7],\"bos_token_id\":0,\"attention_bias\":false,"
             "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":32.0,\"low_freq_factor\":1.0,"
             "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":8192},"));
  EXPECT_EQ(config.family, Family::kLlama);
  EXPECT_EQ(config.layers, 8);
  EXPECT_EQ(config.width, 64);
  EXPECT_EQ(config.ffn_width, 128);
  EXPECT_EQ(config.vocab, 320);
  EXPECT_EQ(config.heads, 4);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.max_positions, 131072);
  EXPECT_TRUE(config.tied_head);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_EQ(config.norm_epsilon, 1e-5);
  EXPECT_EQ(config.score_scale, 0.25);
  EXPECT_EQ(config.rope.kind, RopeKind::kLlama3);
  EXPECT_EQ(config.rope.theta, 500000.0);
  EXPECT_EQ(config.rope.factor, 32.0);
  EXPECT_EQ(config.rope.original_max_positions, 8192);
  EXPECT_EQ(config.checkpoint_dtype, DType::kBF16);
  EXPECT_EQ(config.eos_token_ids, (std::vector<int32_t>{1, 5, 7}));
  EXPECT_EQ(config.bos_token_id, 0);
  EXPECT_TRUE(CheckServed(config).ok());
}

TEST(ConfigTest, SilentFieldsTakeTheClassDefaults) {
  const ModelConfig llama = Parse(Config("llama", "\"num_key_value_heads\":null,"));
  EXPECT_EQ(llama.kv_heads, 4);
  EXPECT_FALSE(llama.tied_head);
  EXPECT_EQ(llama.rope.theta, 10000.0);
  EXPECT_EQ(llama.norm_epsilon, 1e-6);
  EXPECT_EQ(Parse(Config("qwen3")).head_dim, 128);
  EXPECT_TRUE(Parse(Config("qwen3")).qk_norm);
  EXPECT_TRUE(Parse(Config("qwen2")).qkv_bias);
  EXPECT_FALSE(Parse(Config("qwen2")).o_bias);
  EXPECT_TRUE(Parse(Config("llama", "\"attention_bias\":true,")).o_bias);
  EXPECT_TRUE(Parse(Config("smollm3")).tied_head);
}

TEST(ConfigTest, BothSpellingsOfRopeAreOneConfigAndMustAgree) {
  const std::string newer =
      "\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":2.0,\"rope_theta\":5000.0},";
  const std::string older =
      "\"rope_theta\":5000.0,\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.0},";
  for (const std::string& text : {newer, older, newer + older}) {
    const ModelConfig config = Parse(Config("llama", text));
    EXPECT_EQ(config.rope.kind, RopeKind::kLinear);
    EXPECT_EQ(config.rope.theta, 5000.0);
    EXPECT_EQ(config.rope.factor, 2.0);
  }
  ExpectRefused(Config("llama", newer + "\"rope_theta\":6000.0,"), "rope_parameters");
  ExpectRefused(Config("llama", newer + "\"rope_scaling\":{\"type\":\"linear\",\"factor\":4.0},"),
                "rope_parameters");
  ExpectRefused(Config("llama",
                       "\"rope_scaling\":{\"type\":\"linear\",\"rope_type\":\"llama3\","
                       "\"factor\":2.0},"),
                "type");
}

TEST(ConfigTest, RefusesRopeThatIsNotServed) {
  ExpectRefused(Config("llama", "\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2.0},"),
                "\"dynamic\"");
  ExpectRefused(Config("qwen2",
                       "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4.0,"
                       "\"original_max_position_embeddings\":32768},"),
                "yarn");
  ExpectRefused(Config("llama", "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0},"),
                "original_max_position_embeddings");
  ExpectRefused(Config("llama", "\"rope_theta\":0,"), "rope_theta");
  ExpectRefused(Config("llama", "\"partial_rotary_factor\":0.5,"), "partial_rotary_factor");
}

TEST(ConfigTest, SlidingWindowsAreTheFamilysOwn) {
  // Silence means 4096 for Mistral; only a written null means none.
  EXPECT_EQ(Parse(Config("mistral")).layer[0].sliding_window, 4096);
  ExpectRefused(Config("mistral"), "sliding_window");
  EXPECT_EQ(Refusal(Config("mistral", "\"sliding_window\":null,")), "");
  // No sequence outgrows this one.
  EXPECT_EQ(Refusal(Config("mistral", "\"max_position_embeddings\":2048,")), "");
  EXPECT_EQ(Refusal(Config("qwen2", "\"sliding_window\":64,\"use_sliding_window\":false,")), "");
  ExpectRefused(
      Config("qwen2", "\"sliding_window\":64,\"use_sliding_window\":true,\"max_window_layers\":2,"),
      "sliding_window");
  ExpectRefused(Config("qwen3", "\"layer_types\":[\"full_attention\"],"), "layer_types");
}

TEST(ConfigTest, FamiliesNotBuiltYetFillTheirFieldsAndAreRefusedByName) {
  const ModelConfig gemma =
      Parse("{\"model_type\":\"gemma3\",\"text_config\":" +
            Config("gemma3_text", "\"head_dim\":32,\"sliding_window\":512,") + "}");
  EXPECT_EQ(gemma.family, Family::kGemma3);
  EXPECT_EQ(gemma.head_dim, 32);
  EXPECT_EQ(gemma.embedding_scale, 8.0);
  EXPECT_TRUE(gemma.layer[0].local_rope);
  EXPECT_FALSE(gemma.layer[5].local_rope);
  EXPECT_TRUE(gemma.tied_head);
  EXPECT_EQ(Parse(Config("gemma2")).attention_softcap, 50.0);
  EXPECT_FALSE(Parse(Config("smollm3")).layer[3].use_rope);
  EXPECT_EQ(Parse(Config("granite", "\"logits_scaling\":8.0,")).logits_divisor, 8.0);
  EXPECT_TRUE(Parse(Config("phi3")).fused_projections);
  for (const char* type : {"gemma2", "gemma3_text", "phi3", "granite", "smollm3", "mixtral"}) {
    ExpectRefused(Config(type), std::string(type).substr(0, 6));
  }
}

TEST(ConfigTest, RefusesWhatWouldChangeTheNumbersSilently) {
  ExpectRefused(Config("llama", "\"quantization_config\":{\"bits\":4},"), "quantization_config");
  ExpectRefused(Config("llama", "\"auto_map\":{\"AutoModel\":\"x.Y\"},"), "auto_map");
  ExpectRefused(Config("llama", "\"architectures\":[\"LlamaForSequenceClassification\"],"),
                "LlamaForSequenceClassification");
  ExpectRefused(Config("llama", "\"dtype\":\"float16\",\"torch_dtype\":\"bfloat16\","),
                "torch_dtype");
  ExpectRefused(Config("llama", "\"hidden_act\":\"relu\","), "relu");
  ExpectRefused(Config("llama", "\"num_key_value_heads\":3,"), "num_key_value_heads");
  ExpectRefused(Config("llama", "\"head_dim\":15,"), "head_dim");
  ExpectRefused(Config("llama", "\"eos_token_id\":320,"), "eos_token_id");
  ExpectRefused(Config("llama", "\"rms_norm_eps\":\"small\","), "rms_norm_eps");
}

TEST(ConfigTest, RefusesBrokenFiles) {
  ExpectRefused("", "config.json");
  ExpectRefused("[]", "config.json");
  ExpectRefused("{}", "model_type");
  ExpectRefused("{\"model_type\":\"llama\"}", "num_hidden_layers");
  ExpectRefused("{\"model_type\":\"llama\",\"num_hidden_layers\":0}", "num_hidden_layers");
}

}  // namespace
}  // namespace lorica::model
