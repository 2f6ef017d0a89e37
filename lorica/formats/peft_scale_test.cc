#include "lorica/formats/peft_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "lorica/formats/peft_config.h"

namespace lorica::formats {
namespace {

struct PeftRow {
  const char* config;
  struct {
    const char* module;
    int64_t rank;
    double scale;
  } modules[4];
};

#include "lorica/formats/peft_scale_rows.inc"

PeftConfig Parse(const std::string& json) {
  Result<PeftConfig> config = ParsePeftConfig(json, "adapter_config.json");
  EXPECT_TRUE(config.ok()) << config.status().ToString();
  for (const Status& refusal : config->refusals) ADD_FAILURE() << refusal.ToString();
  return *std::move(config);
}

TEST(PeftScale, ResolvesAsPeftDoes) {
  for (const PeftRow& row : kPeftRows) {
    const PeftConfig config = Parse(row.config);
    PeftScale scale(config);
    for (const auto& module : row.modules) {
      const Result<ModuleScale> resolved = scale.Resolve(module.module);
      ASSERT_TRUE(resolved.ok()) << resolved.status().ToString();
      EXPECT_EQ(resolved->rank, module.rank) << row.config << " at " << module.module;
      EXPECT_EQ(resolved->scale, module.scale) << row.config << " at " << module.module;
    }
  }
}

TEST(PeftScale, TakesTheFirstKeyInFileOrderAndWarns) {
  const PeftConfig config = Parse(
      R"({"peft_type":"LORA","r":8,"lora_alpha":16,
          "alpha_pattern":{"q_proj":4,"layers.0.*":32,"q_porj":100}})");
  PeftScale scale(config);
  EXPECT_EQ(scale.Resolve("model.layers.0.self_attn.q_proj")->scale, 0.5);
  EXPECT_EQ(scale.Resolve("model.layers.0.self_attn.k_proj")->scale, 4.0);
  EXPECT_EQ(scale.Resolve("model.layers.1.self_attn.k_proj")->scale, 2.0);
  const std::vector<std::string> warnings = scale.Warnings();
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[0],
            "adapter_config.json: \"alpha_pattern\": key \"q_porj\" matches no module of the "
            "adapter");
  EXPECT_EQ(warnings[1],
            "adapter_config.json: \"alpha_pattern\": keys \"q_proj\" and \"layers.0.*\" both match "
            "\"model.layers.0.self_attn.q_proj\"; the first in the file is used");
}

TEST(PeftScale, NamesAKeyThatRunsAway) {
  const PeftConfig config =
      Parse(R"({"peft_type":"LORA","rank_pattern":{"((\\w+\\.?)+)+x_proj":4}})");
  PeftScale scale(config);
  const Result<ModuleScale> resolved =
      scale.Resolve("model.layers.0.self_attn.very_long_name_of_a_module.x_projx.q_proj");
  ASSERT_FALSE(resolved.ok());
  EXPECT_NE(resolved.status().message().find("\"rank_pattern\""), std::string::npos);
}

TEST(PeftScale, RefusesAScaleBeyondFloat) {
  const PeftConfig config = Parse(R"({"peft_type":"LORA","r":1,"lora_alpha":1e300})");
  PeftScale scale(config);
  EXPECT_EQ(scale.Resolve("q_proj").status().code(), StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace lorica::formats
