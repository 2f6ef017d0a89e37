// Loading: what a folder must hold, how weights are kept, and each refusal.
#include "lorica/model/model.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "lorica/formats/test_files.h"
#include "lorica/kernels/open_backend.h"

namespace lorica::model {
namespace {

using formats::testing::Bf16Tensor;
using formats::testing::F16Tensor;
using formats::testing::F32Tensor;
using formats::testing::SafetensorsBytes;
using formats::testing::SmallValues;
using formats::testing::TempDir;
using formats::testing::TestTensor;
using formats::testing::WriteFile;

// A llama of one layer: hidden 16, two heads of 8, one kv head, ffn 24, vocabulary 20.
struct TinyModel {
  std::string config =
      "{\"model_type\":\"llama\",\"hidden_size\":16,\"intermediate_size\":24,"
      "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"num_key_value_heads\":1,"
      "\"vocab_size\":20,\"tie_word_embeddings\":true,\"max_position_embeddings\":64}";
  std::vector<TestTensor> tensors;

  TinyModel() {
    const auto add = [this](const std::string& name, const Shape& shape) {
      const auto seed = static_cast<uint32_t>(tensors.size() + 1);
      tensors.push_back(Bf16Tensor(name, shape, SmallValues(ElementCount(shape), seed)));
    };
    const std::string layer = "model.layers.0.";
    add("model.embed_tokens.weight", {20, 16});
    add("model.norm.weight", {16});
    add(layer + "input_layernorm.weight", {16});
    add(layer + "post_attention_layernorm.weight", {16});
    add(layer + "self_attn.q_proj.weight", {16, 16});
    add(layer + "self_attn.k_proj.weight", {8, 16});
    add(layer + "self_attn.v_proj.weight", {8, 16});
    add(layer + "self_attn.o_proj.weight", {16, 16});
    add(layer + "mlp.gate_proj.weight", {24, 16});
    add(layer + "mlp.up_proj.weight", {24, 16});
    add(layer + "mlp.down_proj.weight", {16, 24});
  }
  TestTensor& at(const std::string& part) {
    for (TestTensor& tensor : tensors) {
      if (tensor.name.find(part) != std::string::npos) return tensor;
    }
    LORICA_CHECK(false);
  }
  void Erase(const std::string& part) {
    std::erase_if(tensors, [&](const TestTensor& tensor) {
      return tensor.name.find(part) != std::string::npos;
    });
  }
};

class ModelTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<Model>> Load(const TinyModel& tiny,
                                      ComputeType type = ComputeType::kFloat32) {
    WriteFile(dir_ / "config.json", tiny.config);
    WriteFile(dir_ / "model.safetensors", SafetensorsBytes(tiny.tensors));
    return Model::Load(dir_.path(), {.compute_type = type}, backend_.get(), &context_);
  }
  void ExpectRefused(const std::function<void(TinyModel*)>& change, const std::string& part) {
    TinyModel tiny;
    change(&tiny);
    const auto model = Load(tiny);
    ASSERT_FALSE(model.ok()) << part;
    EXPECT_NE(model.status().message().find(part), std::string::npos) << model.status().ToString();
  }
  static std::vector<float> BaseRow(const Model& model, lora::SiteId site, int64_t n) {
    std::vector<float> row(static_cast<size_t>(model.Shape(site).k));
    model.BaseRow(site, n, row);
    return row;
  }

  TempDir dir_;
  MachineContext context_{2};
  std::unique_ptr<kernels::Backend> backend_ = kernels::OpenCpuBackend().value();
};

TEST_F(ModelTest, LoadsAFolderAndAnswersAsBaseView) {
  auto loaded = Load(TinyModel());
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  const Model& model = **loaded;
  const lora::SiteSpace sites = model.sites();
  EXPECT_EQ(model.Shape(sites.Linear(0, lora::Projection::kDown)), (lora::SiteShape{24, 16}));
  EXPECT_EQ(model.Shape(sites.Head()), (lora::SiteShape{16, 20}));
  EXPECT_TRUE(model.tied_head());
  EXPECT_EQ(model.digest().size(), 64u);
  // k_proj is the sixth tensor; its second row.
  const std::vector<float> k = SmallValues(8 * 16, 6);
  EXPECT_EQ(BaseRow(model, sites.Linear(0, lora::Projection::kK), 1),
            std::vector<float>(k.begin() + 16, k.begin() + 32));
  const std::vector<float> embedding = SmallValues(20 * 16, 1);
  EXPECT_EQ(BaseRow(model, sites.Head(), 19),
            std::vector<float>(embedding.begin() + 19 * 16, embedding.end()));
}

TEST_F(ModelTest, WeightsAreKeptInTheNarrowestTypeThatIsExact) {
  using kernels::WeightLayout;
  TinyModel tiny;
  std::vector<float> half = SmallValues(16 * 16, 3);
  half[7] = 1.0f + 0x1p-10f;  // f16 holds it, bf16 does not
  std::vector<float> full = SmallValues(16 * 24, 4);
  full[9] = 1.0f + 0x1p-20f;
  tiny.at("q_proj") = F32Tensor(tiny.at("q_proj").name, {16, 16}, half);
  tiny.at("o_proj") = F16Tensor(tiny.at("o_proj").name, {16, 16}, half);
  tiny.at("gate_proj") = F32Tensor(tiny.at("gate_proj").name, {24, 16}, SmallValues(24 * 16, 9));
  tiny.at("down_proj") = F32Tensor(tiny.at("down_proj").name, {16, 24}, full);
  auto exact = Load(tiny);
  ASSERT_TRUE(exact.ok()) << exact.status().ToString();
  const LayerWeights& layer = (*exact)->weights().layers[0];
  EXPECT_EQ(layer.at(lora::Projection::kV).weight.layout, WeightLayout::kPanelsBf16);
  EXPECT_EQ(layer.at(lora::Projection::kGate).weight.layout, WeightLayout::kPanelsBf16);
  EXPECT_EQ(layer.at(lora::Projection::kQ).weight.layout, WeightLayout::kPanelsF16);
  EXPECT_EQ(layer.at(lora::Projection::kO).weight.layout, WeightLayout::kPanelsF16);
  EXPECT_EQ(layer.at(lora::Projection::kDown).weight.layout, WeightLayout::kPanelsF32);
  const lora::SiteSpace sites = (*exact)->sites();
  EXPECT_EQ(BaseRow(**exact, sites.Linear(0, lora::Projection::kQ), 0)[7], half[7]);
  EXPECT_EQ(BaseRow(**exact, sites.Linear(0, lora::Projection::kDown), 0)[9], full[9]);

  auto rounded = Load(tiny, ComputeType::kBfloat16);
  ASSERT_TRUE(rounded.ok());
  for (const LinearWeights& linear : (*rounded)->weights().layers[0].linear) {
    EXPECT_EQ(linear.weight.layout, WeightLayout::kPanelsBf16);
  }
  EXPECT_EQ(BaseRow(**rounded, sites.Linear(0, lora::Projection::kQ), 0)[7], 1.0f);
  EXPECT_EQ((*rounded)->digest(), (*exact)->digest());
}

TEST_F(ModelTest, AutoFollowsTheCheckpoint) {
  TinyModel tiny;
  EXPECT_EQ((*Load(tiny, ComputeType::kAuto))->compute_type(), ComputeType::kBfloat16);
  for (TestTensor& tensor : tiny.tensors) {
    tensor = F32Tensor(tensor.name, tensor.shape, SmallValues(ElementCount(tensor.shape), 1));
  }
  EXPECT_EQ((*Load(tiny, ComputeType::kAuto))->compute_type(), ComputeType::kFloat32);
}

TEST_F(ModelTest, TheDigestIsOfTheContent) {
  TinyModel tiny;
  const std::string digest = (*Load(tiny))->digest();
  EXPECT_EQ((*Load(tiny))->digest(), digest);
  tiny.at("up_proj").bytes[0] ^= 1;
  EXPECT_NE((*Load(tiny))->digest(), digest);
  TinyModel other;
  other.config.insert(1, "\"rope_theta\":20000.0,");
  EXPECT_NE((*Load(other))->digest(), digest);
}

TEST_F(ModelTest, RefusesTensorsThatDoNotFit) {
  ExpectRefused([](TinyModel* t) { t->Erase("k_proj"); },
                "model.layers.0.self_attn.k_proj.weight [8, 16], found none");
  ExpectRefused(
      [](TinyModel* t) {
        t->at("k_proj").shape = {16, 8};
      },
      "k_proj.weight: expected the shape [8, 16], found [16, 8]");
  ExpectRefused(
      [](TinyModel* t) {
        t->tensors.push_back(Bf16Tensor("model.layers.1.mlp.up_proj.weight", {1}, {1.0f}));
      },
      "model.layers.1.mlp.up_proj.weight [1]");
  ExpectRefused([](TinyModel* t) { t->config.replace(t->config.find(":20,"), 4, ":21,"); },
                "expected the shape [21, 16], found [20, 16]");
  ExpectRefused(
      [](TinyModel* t) {
        std::vector<float> values(16, 1.0f);
        values[3] = std::numeric_limits<float>::quiet_NaN();
        t->at("input_layernorm") = F32Tensor(t->at("input_layernorm").name, {16}, values);
      },
      "input_layernorm.weight: expected finite numbers");
  ExpectRefused(
      [](TinyModel* t) {
        std::vector<float> values = SmallValues(16 * 24, 1);
        values[100] = std::numeric_limits<float>::infinity();
        t->at("down_proj") = Bf16Tensor(t->at("down_proj").name, {16, 24}, values);
      },
      "down_proj.weight: expected finite numbers");
  ExpectRefused(
      [](TinyModel* t) {
        TestTensor& q = t->at("q_proj");
        q = {q.name, "I16", q.shape, q.bytes};
      },
      "q_proj.weight: expected F32, F16, BF16");
}

TEST_F(ModelTest, TheHeadIsTiedOrThere) {
  ExpectRefused([](TinyModel* t) { t->config.replace(t->config.find("true"), 4, "false"); },
                "lm_head.weight [20, 16], found none");
  ExpectRefused(
      [](TinyModel* t) {
        t->tensors.push_back(Bf16Tensor("lm_head.weight", {20, 16}, SmallValues(20 * 16, 99)));
      },
      "to equal the embedding");
  TinyModel again;  // a tied head written twice, and a table that everyone recomputes
  again.tensors.push_back(Bf16Tensor("lm_head.weight", {20, 16}, SmallValues(20 * 16, 1)));
  again.tensors.push_back(
      F32Tensor("model.layers.0.self_attn.rotary_emb.inv_freq", {4}, {1.0f, 0.1f, 0.01f, 0.001f}));
  EXPECT_TRUE(Load(again).ok());
  TinyModel untied;
  untied.config.replace(untied.config.find("true"), 4, "false");
  untied.tensors.push_back(Bf16Tensor("lm_head.weight", {20, 16}, SmallValues(20 * 16, 99)));
  auto model = Load(untied);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_TRUE((*model)->weights().head.has_value());
}

TEST_F(ModelTest, RefusesWhatIsNoModel) {
  const auto message = [&](const std::string& path) {
    return Model::Load(path, {}, backend_.get(), &context_).status().message();
  };
  EXPECT_NE(message(dir_ / "absent").find("found nothing there"), std::string::npos);
  EXPECT_NE(message(dir_.path()).find("config.json, found none"), std::string::npos);
  WriteFile(dir_ / "config.json", TinyModel().config);
  EXPECT_NE(message(dir_.path()).find("model.safetensors"), std::string::npos);
  WriteFile(dir_ / "foreign.gguf", "this is no model");
  EXPECT_NE(message(dir_ / "foreign.gguf").find("foreign.gguf"), std::string::npos);
  WriteFile(dir_ / "empty.gguf", "");
  EXPECT_NE(message(dir_ / "empty.gguf").find("empty.gguf"), std::string::npos);
}

TEST_F(ModelTest, GenerationConfigAddsEndTokens) {
  WriteFile(dir_ / "generation_config.json", "{\"eos_token_id\":[3,5]}");
  TinyModel tiny;
  tiny.config.insert(1, "\"eos_token_id\":3,");
  EXPECT_EQ((*Load(tiny))->config().eos_token_ids, (std::vector<int32_t>{3, 5}));
  WriteFile(dir_ / "generation_config.json", "{\"eos_token_id\":20}");
  EXPECT_FALSE(Load(tiny).ok());
}

TEST_F(ModelTest, SyntheticModelsAreAFunctionOfTheirSeed) {
  const ModelConfig config = ParseModelConfig(TinyModel().config, "config.json").value();
  const auto make = [&](uint64_t seed) {
    return Model::Synthetic(config, ModelOptions(), seed, backend_.get(), &context_).value();
  };
  const lora::SiteId site = lora::SiteSpace{1}.Linear(0, lora::Projection::kUp);
  EXPECT_EQ(BaseRow(*make(1), site, 5), BaseRow(*make(1), site, 5));
  EXPECT_NE(BaseRow(*make(1), site, 5), BaseRow(*make(2), site, 5));
  EXPECT_NE(BaseRow(*make(1), site, 5), BaseRow(*make(1), site, 6));
}

TEST(ComputeTypeTest, ParsesItsNames) {
  EXPECT_EQ(*ParseComputeType("auto"), ComputeType::kAuto);
  EXPECT_EQ(*ParseComputeType("bfloat16"), ComputeType::kBfloat16);
  EXPECT_FALSE(ParseComputeType("float16").ok());
}

}  // namespace
}  // namespace lorica::model
