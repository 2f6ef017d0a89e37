#include "lorica/lora/module_map.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lorica::lora {
namespace {

TEST(ModuleMap, MapsEachLinearUnderEachPrefix) {
  for (const std::string prefix :
       {"model.", "", "model.language_model.", "language_model.model.", "language_model."}) {
    std::vector<std::string> paths;
    std::vector<LinearName> expected;
    for (const int32_t layer : {0, 7, 31}) {
      for (int32_t i = 0; i < kProjections; ++i) {
        const auto projection = static_cast<Projection>(i);
        paths.push_back(prefix + "layers." + std::to_string(layer) +
                        (i < 4 ? ".self_attn." : ".mlp.") +
                        std::string(ProjectionName(projection)));
        expected.push_back({layer, projection});
      }
    }
    const ModuleMap map = MapModules(paths);
    EXPECT_EQ(map.prefix, prefix);
    ASSERT_EQ(map.linears.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(map.linears[i], expected[i]) << paths[i];
  }
}

TEST(ModuleMap, MapsNothingElse) {
  for (const std::string path :
       {"", "lm_head", "model.layers.0.self_attn", "model.layers.0.q_proj",
        "model.layers.0.mlp.q_proj", "model.layers.0.self_attn.up_proj",
        "model.layers.00.self_attn.q_proj", "model.layers.-1.self_attn.q_proj",
        "model.layers.9999999999.self_attn.q_proj", "model.layers..self_attn.q_proj",
        "xmodel.layers.0.self_attn.q_proj", "model.layers.0.self_attn.q_proj.x",
        "model.layers.0.mlp.experts.3.up_proj", "visual.blocks.0.attn.q_proj"}) {
    EXPECT_FALSE(MapModules({path}).linears[0].has_value()) << path;
  }
}

TEST(ModuleMap, TakesOnePrefixForAWholeFile) {
  const ModuleMap map = MapModules({"layers.0.self_attn.q_proj", "layers.1.self_attn.q_proj",
                                    "model.layers.0.self_attn.q_proj"});
  EXPECT_EQ(map.prefix, "");
  EXPECT_FALSE(map.linears[2].has_value());
  EXPECT_EQ(DescribeUnserved("model.layers.0.self_attn.q_proj"),
            "a linear under another prefix than the others");
}

TEST(ModuleMap, KindsIgnoreNumbers) {
  EXPECT_EQ(ModuleKind("visual.blocks.12.attn.w1"), "visual.blocks.#.attn.w#");
}

}  // namespace
}  // namespace lorica::lora
