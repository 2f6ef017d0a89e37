#include "lorica/formats/peft_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace lorica::formats {
namespace {

using ::testing::HasSubstr;

PeftConfig Parse(const std::string& fields) {
  Result<PeftConfig> config =
      ParsePeftConfig("{\"peft_type\":\"LORA\"" + (fields.empty() ? "" : "," + fields) + "}", "c");
  EXPECT_TRUE(config.ok()) << fields << ": " << config.status().ToString();
  return config.ok() ? *std::move(config) : PeftConfig{};
}

TEST(PeftConfig, AbsentFieldsHavePeftsDefaults) {
  const PeftConfig config = Parse("");
  EXPECT_EQ(config.r, 8);
  EXPECT_EQ(config.lora_alpha, 8.0);
  EXPECT_FALSE(config.use_rslora);
  EXPECT_TRUE(config.refusals.empty());
}

TEST(PeftConfig, ReadsWhatIsHonoured) {
  const PeftConfig config = Parse(
      R"("r":16.0,"lora_alpha":22.6,"use_rslora":true,"target_modules":["q_proj","mlp.up_proj"],
         "rank_pattern":{"z":4,"a":2},"alpha_pattern":{"^a.b":0.5},"base_model_name_or_path":"b")");
  EXPECT_TRUE(config.refusals.empty());
  EXPECT_EQ(config.r, 16);
  EXPECT_EQ(config.lora_alpha, 22.6);
  EXPECT_TRUE(config.use_rslora);
  EXPECT_THAT(config.target_modules, ::testing::ElementsAre("q_proj", "mlp.up_proj"));
  ASSERT_EQ(config.rank_pattern.size(), 2u);
  EXPECT_EQ(config.rank_pattern[0].pattern.key(), "z") << "the order of the file, not sorted";
  EXPECT_EQ(config.rank_pattern[0].value, 4.0);
  EXPECT_EQ(config.alpha_pattern[0].value, 0.5);
  EXPECT_EQ(config.base_model, "b");
}

struct FieldRow {
  const char* fields;
  // A part of the one refusal; null for a config that is served.
  const char* refusal;
};

TEST(PeftConfig, EveryFieldIsIgnoredHonouredOrRefused) {
  const FieldRow rows[] = {
      // Inert.
      {R"("base_model_name_or_path":"x","revision":"main","inference_mode":true)", nullptr},
      {R"("auto_mapping":{"base_model_class":"M"},"peft_version":"0.21.2")", nullptr},
      {R"("task_type":"CAUSAL_LM","lora_dropout":0.1,"bias":"none")", nullptr},
      {R"("task_type":null,"rank_pattern":null,"alpha_pattern":{},"use_rslora":null)", nullptr},
      {R"("target_modules":"all-linear","exclude_modules":"lm_head")", nullptr},
      {R"("target_modules":null,"layers_to_transform":[0,1],"layers_pattern":"layers")", nullptr},
      {R"("fan_in_fan_out":true,"megatron_core":"megatron.core","runtime_config":{"e":true})",
       nullptr},
      {R"("loftq_config":{"bits":4},"eva_config":{},"corda_config":null,"lora_ga_config":{"a":1})",
       nullptr},
      {R"("qalora_group_size":16,"use_qalora":false)", nullptr},
      {R"("lora_alpha":0)", nullptr},
      {R"("lora_alpha":-1.5)", nullptr},
      // Variants that are off, as PEFT writes them.
      {R"("use_dora":false,"lora_bias":false,"modules_to_save":null,"layer_replication":null)",
       nullptr},
      {R"("target_parameters":null,"trainable_token_indices":null,"alora_invocation_tokens":null)",
       nullptr},
      {R"("arrow_config":null,"kasa_config":null,"velora_config":null,"use_bdlora":false)",
       nullptr},
      {R"("megatron_config":null,"monteclora_config":null,"ensure_weight_tying":false)", nullptr},
      {R"("modules_to_save":[],"enable_lora":null)", nullptr},
      // Initialisers.
      {R"("init_lora_weights":true)", nullptr},
      {R"("init_lora_weights":false)", nullptr},
      {R"("init_lora_weights":"gaussian")", nullptr},
      {R"("init_lora_weights":"eva")", nullptr},
      {R"("init_lora_weights":"orthogonal")", nullptr},
      {R"("init_lora_weights":"mica")", nullptr},
      {R"("init_lora_weights":"pissa")", "\"init_lora_weights\""},
      {R"("init_lora_weights":"pissa_niter_4")", "\"init_lora_weights\""},
      {R"("init_lora_weights":"olora")", "\"init_lora_weights\""},
      {R"("init_lora_weights":"corda")", "\"init_lora_weights\""},
      {R"("init_lora_weights":"lora_ga")", "\"init_lora_weights\""},
      {R"("init_lora_weights":"loftq")", "convert the adapter to plain LoRA"},
      {R"("init_lora_weights":7)", "found 7"},
      // Variants that are on.
      {R"("use_dora":true)", "\"use_dora\": expected null: DoRA"},
      {R"("lora_bias":true)", "\"lora_bias\""},
      {R"("bias":"all")", "\"bias\": expected \"none\""},
      {R"("bias":"lora_only")", "found \"lora_only\""},
      {R"("bias":null)", "\"bias\""},
      {R"("modules_to_save":["lm_head"])", "\"modules_to_save\""},
      {R"("trainable_token_indices":[1,2])", "\"trainable_token_indices\""},
      {R"("alora_invocation_tokens":[1])", "aLoRA"},
      {R"("invocation_string":"x")", "aLoRA"},
      {R"("layer_replication":[[0,2],[1,2]])", "\"layer_replication\""},
      {R"("target_parameters":["experts.down_proj"])", "\"target_parameters\""},
      {R"("ensure_weight_tying":true)", "\"ensure_weight_tying\""},
      {R"("use_qalora":true)", "QALoRA"},
      {R"("use_bdlora":{})", "BD-LoRA"},
      {R"("use_bdlora":{"nblocks":2})", "BD-LoRA"},
      {R"("kasa_config":{})", "KaSA"},
      {R"("kasa_config":{"beta":0.1})", "KaSA"},
      {R"("arrow_config":{"top_k":3})", "Arrow"},
      {R"("velora_config":{"a":1})", "VeLoRA"},
      {R"("monteclora_config":{"a":1})", "MonteCLoRA"},
      {R"("megatron_config":{"a":1})", "Megatron"},
      {R"("enable_lora":[true,false,true])", "PEFT 0.2"},
      {R"("task_type":"SEQ_CLS")", "\"task_type\": expected \"CAUSAL_LM\" or null"},
      // Types and ranges.
      {R"("r":0)", "\"r\": expected a whole rank above 0, found 0"},
      {R"("r":-4)", "\"r\""},
      {R"("r":2.5)", "found 2.5"},
      {R"("r":"8")", "\"r\""},
      {R"("r":null)", "\"r\""},
      {R"("r":18446744073709551615)", "\"r\""},
      {R"("lora_alpha":null)", "\"lora_alpha\": expected a finite number, found null"},
      {R"("lora_alpha":"16")", "\"lora_alpha\""},
      {R"("use_rslora":1)", "\"use_rslora\": expected true or false, found 1"},
      {R"("rank_pattern":[])", "\"rank_pattern\": expected an object"},
      {R"("rank_pattern":{"q":0})", "\"rank_pattern.q\""},
      {R"("rank_pattern":{"q(":4})", "expected a regular expression"},
      {R"("alpha_pattern":{"q":"4"})", "\"alpha_pattern.q\""},
      {R"("alpha_pattern":{"(q)\\1":4})", "back-references and octal escapes are not read"},
      {R"("alpha_pattern":{"(?i)q":4})", "flags"},
      {R"("target_modules":{"a":1})", "\"target_modules\""},
      {R"("target_modules":[1])", "\"target_modules\""},
      // Unknown fields.
      {R"("unknown":null,"unknown2":false,"unknown3":0,"unknown4":"","unknown5":[],"unknown6":{})",
       nullptr},
      {R"("unknown":true)", "\"unknown\": expected no such field"},
      {R"("merge_weights":false)", nullptr},
      {R"("nvfp4_merge_aware":true)", "\"nvfp4_merge_aware\""},
      {R"("_name_or_path":"llama")", "\"_name_or_path\""},
      {R"("lora_parameters":{"rank":8})", "\"lora_parameters\""},
  };
  for (const FieldRow& row : rows) {
    const PeftConfig config = Parse(row.fields);
    if (row.refusal == nullptr) {
      for (const Status& refusal : config.refusals)
        ADD_FAILURE() << row.fields << refusal.message();
      continue;
    }
    ASSERT_EQ(config.refusals.size(), 1u) << row.fields;
    EXPECT_THAT(config.refusals[0].message(), HasSubstr(row.refusal)) << row.fields;
    EXPECT_THAT(config.refusals[0].message(), ::testing::StartsWith("c: \"")) << row.fields;
  }
}

TEST(PeftConfig, OtherMethodsAreRefusedByName) {
  for (const std::string method : {"ADALORA", "LOHA", "LOKR", "IA3", "VERA", "OFT", "BOFT", "XLORA",
                                   "HRA", "MISS", "PROMPT_TUNING", "TRAINABLE_TOKENS", "lora"}) {
    const auto config = ParsePeftConfig("{\"peft_type\":\"" + method + "\"}", "c");
    ASSERT_TRUE(config.ok());
    ASSERT_EQ(config->refusals.size(), 1u) << method;
    EXPECT_EQ(config->refusals[0].message(),
              "c: \"peft_type\": expected \"LORA\", found \"" + method + "\"");
  }
}

TEST(PeftConfig, ListsEveryReason) {
  const PeftConfig config = Parse(R"("r":0,"use_dora":true,"bias":"all","strange":3)");
  EXPECT_EQ(config.refusals.size(), 4u);
}

TEST(PeftConfig, SaysWhatIsNoPeftConfig) {
  const FieldRow rows[] = {
      {"", "c: "},
      {"[]", "expected a JSON object, found []"},
      {"{", "c: "},
      {"{}", "\"peft_type\""},
      {R"({"r":8,"peft_type":null})", "\"peft_type\""},
      {R"({"_name_or_path":"llama","hidden_size":64})", "the config of a base model"},
      {R"({"fine_tune_type":"lora","num_layers":4,"lora_parameters":{"rank":8}})", "MLX"},
      {R"({"peft_type":"LORA","lora_alpha":NaN})", "c: "},
      {R"({"peft_type":"LORA","lora_alpha":Infinity})", "c: "},
      {R"({"peft_type":"LORA","lora_alpha":1e999})", "c: "},
      {R"({"peft_type":"LORA","r":8,"r":16})", "r"},
      {R"({"peft_type":"LORA","alpha_pattern":{"q":1,"q":2}})", "q"},
  };
  for (const FieldRow& row : rows) {
    const auto config = ParsePeftConfig(row.fields, "c");
    ASSERT_FALSE(config.ok()) << row.fields;
    EXPECT_THAT(config.status().message(), HasSubstr(row.refusal)) << row.fields;
  }
}

TEST(PeftConfig, LimitsPatterns) {
  std::string plain, regex;
  for (int i = 0; i < 300; ++i) {
    plain += (i == 0 ? "" : ",") + ("\"^layers." + std::to_string(i) + ".q\":4");
    regex += (i == 0 ? "" : ",") + ("\"layers.(" + std::to_string(i) + ").q\":4");
  }
  EXPECT_TRUE(Parse("\"rank_pattern\":{" + plain + "}").refusals.empty());
  const PeftConfig config = Parse("\"rank_pattern\":{" + regex + "}");
  ASSERT_EQ(config.refusals.size(), 1u);
  EXPECT_THAT(config.refusals[0].message(), HasSubstr("found 300"));
}

TEST(PeftConfig, SurvivesDamagedText) {
  const std::string text =
      R"({"peft_type":"LORA","r":16,"lora_alpha":32.5,"alpha_pattern":{"(q|v)_proj":4}})";
  for (size_t at = 0; at < text.size(); ++at) {
    for (const char byte : {'\0', '"', '{', '}', '\\', '(', '9', '\xff'}) {
      std::string damaged = text;
      damaged[at] = byte;
      const auto config = ParsePeftConfig(damaged, "c");
      EXPECT_TRUE(config.ok() || !config.status().message().empty());
    }
    EXPECT_FALSE(ParsePeftConfig(text.substr(0, at), "c").ok());
  }
}

}  // namespace
}  // namespace lorica::formats
