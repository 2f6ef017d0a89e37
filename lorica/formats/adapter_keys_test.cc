#include "lorica/formats/adapter_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lorica::formats {
namespace {

constexpr auto kA = AdapterKeyKind::kLoraA;
constexpr auto kB = AdapterKeyKind::kLoraB;
constexpr auto kCopy = AdapterKeyKind::kBaseCopy;
constexpr auto kReplacement = AdapterKeyKind::kReplacement;

TEST(AdapterKeys, ReadsTheNamesOfPeft) {
  struct Row {
    const char* name;
    AdapterKeyKind kind;
    const char* module;
    const char* adapter_name;
  };
  const Row rows[] = {
      {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", kA,
       "model.layers.0.self_attn.q_proj", ""},
      {"base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight", kB,
       "model.layers.0.self_attn.q_proj", ""},
      {"model.layers.0.mlp.up_proj.lora_A.weight", kA, "model.layers.0.mlp.up_proj", ""},
      {"base_model.model.layers.0.mlp.up_proj.lora_A.weight", kA, "layers.0.mlp.up_proj", ""},
      {"base_model.model.model.layers.0.q_proj.lora_A.default.weight", kA, "model.layers.0.q_proj",
       "default"},
      {"base_model.model.model.layers.0.q_proj.lora_B.default_0.weight", kB,
       "model.layers.0.q_proj", "default_0"},
      {"_orig_mod.base_model.model.model.layers.0._fsdp_wrapped_module.q_proj.lora_A.weight", kA,
       "model.layers.0.q_proj", ""},
      {"base_model.model.model.layers.0._checkpoint_wrapped_module.q_proj.lora_A.weight", kA,
       "model.layers.0.q_proj", ""},
      {"base_model.model.lm_head.base_layer.weight", kCopy, "lm_head", ""},
      {"base_model.model.lm_head.original_module.weight", kCopy, "lm_head", ""},
      {"base_model.model.model.embed_tokens.weight", kReplacement, "model.embed_tokens", ""},
      {"base_model.model.lm_head.modules_to_save.default.weight", kReplacement, "lm_head",
       "default"},
      {"base_model.model.model.norm.weight", kReplacement, "model.norm", ""},
      {"base_model.model.lm_head.lora_A.weight", kA, "lm_head", ""},
  };
  for (const Row& row : rows) {
    const AdapterKey key = ParseAdapterKey(row.name);
    EXPECT_EQ(key.kind, row.kind) << row.name << ": " << key.meaning;
    EXPECT_EQ(key.module, row.module) << row.name;
    EXPECT_EQ(key.adapter_name, row.adapter_name) << row.name;
  }
}

TEST(AdapterKeys, NamesWhatItRefuses) {
  struct Row {
    const char* name;
    const char* meaning;
  };
  const Row rows[] = {
      {"", "empty"},
      {"base_model.model", "empty"},
      {"a..lora_A.weight", "empty"},
      {"lora_A.weight", "without a module"},
      {"base_model.model.weight", "no tensor of a PEFT adapter"},
      {"base_model.model.q_proj.lora_A", "no name of PEFT's"},
      {"q_proj.lora_A.a.b.weight", "no name of PEFT's"},
      {"q_proj.lora_B.bias", "bias of lora_B"},
      {"q_proj.lora_B.default.bias", "bias of lora_B"},
      {"q_proj.base_layer.bias", "bias in place"},
      {"q_proj.bias", "bias in place"},
      {"embed_tokens.lora_embedding_A", "embedding"},
      {"embed_tokens.lora_embedding_B.default", "embedding"},
      {"q_proj.lora_magnitude_vector", "DoRA"},
      {"q_proj.lora_magnitude_vector.weight", "DoRA"},
      {"q_proj.lora_magnitude_vector.default.weight", "DoRA"},
      {"q_proj.lora_diag", "KaSA"},
      {"embed_tokens.token_adapter.trainable_tokens_delta", "trainable tokens"},
      {"mlp.experts.base_layer.lora_A.weight", "target_parameters"},
      {"model.layers.0.self_attn.q_proj.lora_a", "MLX"},
      {"layers.0.attn.q_proj.lora_a.weight", "torchtune"},
      {"layers.0.attn.q_proj.magnitude", "torchtune"},
      {"lora_unet_down_blocks_0.lora_up.weight", "image-model"},
      {"lora_te1_text_model.lora_down.weight", "image-model"},
      {"unet.to_q.lora_down.weight", "image-model"},
      {"x.alpha", "image-model"},
      {"x.hada_w1_a", "image-model"},
      {"x.lokr_w1", "image-model"},
      {"x.dora_scale", "image-model"},
      {"transformer.single_transformer_blocks.0.attn.to_q.lora_A.weight", "image-model"},
      {"x.processor.to_q.lora_A.weight", "image-model"},
      {"q_proj.lora_E", "AdaLoRA"},
      {"q_proj.lora_velora_embed", "VeLoRA"},
      {"q_proj.lora_monteclora_sampler.x", "MonteCLoRA"},
      {"anything.at.all", "no tensor of a PEFT adapter"},
  };
  for (const Row& row : rows) {
    const AdapterKey key = ParseAdapterKey(row.name);
    EXPECT_EQ(key.kind, AdapterKeyKind::kRefused) << row.name;
    EXPECT_THAT(std::string(key.meaning), ::testing::HasSubstr(row.meaning)) << row.name;
  }
}

}  // namespace
}  // namespace lorica::formats
