#include "lorica/formats/adapter_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "lorica/formats/test_files.h"

namespace lorica::formats {
namespace {

using ::testing::AnyOf;
using testing::F32Tensor;
using ::testing::HasSubstr;
using testing::LoraPair;
using testing::PeftName;
using testing::SmallValues;
using testing::TempDir;
using testing::TestTensor;
using testing::WriteAdapter;
using testing::WriteFile;

constexpr const char* kQ = "model.layers.0.self_attn.q_proj";
constexpr const char* kV = "model.layers.1.self_attn.v_proj";

std::string Config(const std::string& fields = "\"r\":4,\"lora_alpha\":8") {
  return "{\"peft_type\":\"LORA\"" + (fields.empty() ? "" : "," + fields) + "}";
}

using Tensors = std::vector<TestTensor>;

Tensors operator+(Tensors left, const Tensors& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

Tensors Two() { return LoraPair(kQ, 4, 64, 64) + LoraPair(kV, 4, 64, 32, 2); }

Result<AdapterFiles> Open(const std::string& config, const Tensors& tensors) {
  TempDir dir;
  WriteAdapter(dir.path(), config, tensors);
  return AdapterFiles::Open(dir.path());  // the bytes were read: the folder may go
}

std::string Digest(const std::string& config, const Tensors& tensors) {
  const Result<AdapterFiles> files = Open(config, tensors);
  EXPECT_TRUE(files.ok()) << files.status().ToString();
  EXPECT_TRUE(files->reasons().empty());
  return files->Digest();
}

TEST(AdapterFiles, ReadsAnAdapter) {
  const Result<AdapterFiles> files =
      Open(Config(R"("r":4,"lora_alpha":8,"alpha_pattern":{"v_proj":2},"use_rslora":true)"), Two());
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  EXPECT_TRUE(files->reasons().empty());
  EXPECT_TRUE(files->warnings().empty());
  ASSERT_EQ(files->modules().size(), 2u);
  const AdapterModule& q = files->modules()[0];
  EXPECT_EQ(q.path, kQ);
  EXPECT_EQ(q.a_name, PeftName(kQ, "lora_A.weight"));
  EXPECT_EQ(q.a.shape, (Shape{4, 64}));
  EXPECT_EQ(q.b.shape, (Shape{64, 4}));
  EXPECT_EQ(q.rank, 4);
  EXPECT_EQ(q.scale, 4.0);
  EXPECT_EQ(q.a_narrowest, DType::kBF16);
  EXPECT_EQ(std::memcmp(q.a.data, Two()[0].bytes.data(), Two()[0].bytes.size()), 0);
  EXPECT_EQ(files->modules()[1].alpha, 2.0);
  EXPECT_EQ(files->modules()[1].scale, 1.0);
}

TestTensor Renamed(TestTensor tensor, std::string name) {
  tensor.name = std::move(name);
  return tensor;
}

Tensors Bad(float value) {
  std::vector<float> values = SmallValues(4 * 64, 1);
  values[77] = value;
  return Tensors{F32Tensor(PeftName(kQ, "lora_A.weight"), {4, 64}, values), Two()[1]};
}

struct FileRow {
  const char* report;  // the public report that the row comes from, or the rule
  std::string config;
  Tensors tensors;
  const char* reason;  // a part of the one reason; null when the adapter is served
};

std::vector<FileRow> FileRows() {
  const std::string plain = Config();
  const Tensors pair = LoraPair(kQ, 4, 64, 64);
  const Tensors head = {F32Tensor(PeftName("lm_head", "weight"), {128, 64}, SmallValues(8192, 1))};
  std::vector<FileRow> rows = {
      {"plain", plain, Two(), nullptr},
      {"peft#838", Config(R"("r":4,"modules_to_save":["embed_tokens"])"), pair,
       "\"modules_to_save\""},
      {"peft#2450", plain, pair + Tensors{F32Tensor(PeftName("lm_head", "weight"), {0}, {})},
       "expected no empty dimension, found shape [0] (ZeRO-3"},
      {"zero rank", plain,
       Tensors{F32Tensor(PeftName(kQ, "lora_A.weight"), {0, 64}, {}),
               F32Tensor(PeftName(kQ, "lora_B.weight"), {64, 4}, SmallValues(256, 1))},
       "found shape [0, 64] (ZeRO-3"},
      {"peft#1678", plain, {}, "expected at least one pair of lora_A and lora_B, found none"},
      {"peft#2699", plain, pair + Tensors{F32Tensor("strange.tensor", {1}, {1})},
       "tensor \"strange.tensor\""},
      {"transformers P34068", plain, Tensors{pair[0]}, "found no lora_B"},
      {"A missing", plain, Tensors{pair[1]}, "found no lora_A"},
      {"lorax P105", plain,
       pair + Tensors{F32Tensor(PeftName("foo", "lora_A.weight"), {4, 4}, SmallValues(16, 1))},
       "tensor \"base_model.model.foo.lora_A.weight\""},
      {"sglang#17086", plain, pair + Tensors{F32Tensor("lora_unet_x.alpha", {}, {1})},
       "image-model LoRA"},
      {"diffusers P14409", plain,
       Tensors{F32Tensor("transformer.x.lora_up.weight", {4, 4}, SmallValues(16, 1))} + pair,
       "image-model LoRA"},
      {"DoRA without the flag", plain,
       pair + Tensors{F32Tensor(PeftName(kQ, "lora_magnitude_vector"), {64}, SmallValues(64, 1))},
       "DoRA magnitude"},
      {"lora_B.bias", plain,
       pair + Tensors{F32Tensor(PeftName(kQ, "lora_B.bias"), {64}, SmallValues(64, 1))},
       "a bias of lora_B"},
      {"embedding LoRA", plain,
       pair + Tensors{F32Tensor(PeftName("model.embed_tokens", "lora_embedding_A"), {4, 128},
                                SmallValues(512, 1))},
       "a LoRA on an embedding"},
      {"sglang P27381", plain, pair + LoraPair("model.layers.0.mlp.experts.base_layer", 4, 64, 64),
       "LoRA on a bare parameter"},
      {"norms", plain,
       pair + Tensors{F32Tensor(PeftName("model.norm", "weight"), {64}, SmallValues(64, 1))},
       "a weight in place of the base's"},
      {"llama.cpp#3640", plain,
       pair + Tensors{F32Tensor(PeftName(kQ, "base_layer.weight"), {64, 64}, SmallValues(4096, 1))},
       "a full model saved with its LoRA unmerged"},
      {"llama.cpp#5602", plain, pair + head, nullptr},
      {"NaN", plain, Bad(std::nanf("")), "found NaN or infinity at index 77 (row 1, column 13)"},
      {"Inf", plain, Bad(std::numeric_limits<float>::infinity()), "index 77"},
      {"rank mismatch", Config(R"("r":8)"), pair,
       "expected rank 8, as r and rank_pattern of the config say, in both, found lora_A [4, 64] "
       "and lora_B [64, 4]"},
      {"r absent means 8", Config(""), LoraPair(kQ, 8, 64, 64), nullptr},
      {"axolotl P3673", Config(R"("r":4,"rank_pattern":{"v_proj":2})"),
       LoraPair(kQ, 4, 64, 64) + LoraPair(kV, 2, 64, 32), nullptr},
      {"A and B differ in rank", plain, Tensors{pair[0], LoraPair(kQ, 2, 64, 64)[1]},
       "lora_B [64, 2]"},
      {"transposed", plain,
       Tensors{F32Tensor(PeftName(kQ, "lora_A.weight"), {64, 4}, SmallValues(256, 1)),
               F32Tensor(PeftName(kQ, "lora_B.weight"), {4, 32}, SmallValues(128, 1))},
       "transposed, as MLX stores them"},
      {"conv", plain,
       Tensors{F32Tensor(PeftName(kQ, "lora_A.weight"), {4, 64, 1, 1}, SmallValues(256, 1)),
               pair[1]},
       "expected two dimensions, found shape [4, 64, 1, 1]"},
      {"F64", plain,
       Tensors{{PeftName(kQ, "lora_A.weight"), "F64", {4, 64}, std::string(2048, '\0')}, pair[1]},
       "expected F32, F16 or BF16, found"},
      {"two adapter names", plain,
       Tensors{Renamed(pair[0], PeftName(kQ, "lora_A.one.weight")),
               Renamed(pair[1], PeftName(kQ, "lora_B.two.weight"))},
       "expected one adapter name, found \"one\" and \"two\""},
      {"one adapter name", plain,
       Tensors{Renamed(pair[0], PeftName(kQ, "lora_A.default.weight")),
               Renamed(pair[1], PeftName(kQ, "lora_B.default.weight"))},
       nullptr},
      {"a wrapper makes two one", plain,
       pair + Tensors{Renamed(pair[0], "_orig_mod." + pair[0].name)},
       "expected one tensor for this factor"},
      {"user weight of rsLoRA (lorax P299)", Config(R"("r":4,"lora_alpha":16,"use_rslora":true)"),
       pair, nullptr},
      {"PiSSA (transformers#34468)", Config(R"("r":4,"init_lora_weights":"pissa")"), pair,
       "\"init_lora_weights\""},
      {"unsloth#9326", Config(R"("r":4,"target_modules":["q_proj","lm_head"])"), pair, nullptr},
      {"qkv_proj (peft P1705)", plain, LoraPair("model.layers.0.self_attn.qkv_proj", 4, 64, 128),
       nullptr},
  };
  return rows;
}

TEST(AdapterFiles, EachReportIsReadOrRefused) {
  for (const FileRow& row : FileRows()) {
    const Result<AdapterFiles> files = Open(row.config, row.tensors);
    ASSERT_TRUE(files.ok()) << row.report << ": " << files.status().ToString();
    if (row.reason == nullptr) {
      for (const Status& reason : files->reasons()) ADD_FAILURE() << row.report << reason.message();
      EXPECT_FALSE(files->modules().empty()) << row.report;
      continue;
    }
    ASSERT_FALSE(files->reasons().empty()) << row.report;
    EXPECT_THAT(files->reasons()[0].message(), HasSubstr(row.reason)) << row.report;
  }
}

TEST(AdapterFiles, OneFaultOfManyTensorsIsOneReason) {
  Tensors tensors;
  for (int layer = 0; layer < 12; ++layer) {
    const std::string module = "model.layers." + std::to_string(layer) + ".mlp.up_proj";
    tensors = tensors + Tensors{LoraPair(module, 4, 8, 8)[0]};
  }
  const Result<AdapterFiles> files = Open(Config(R"("use_dora":true,"bias":"all")"), tensors);
  ASSERT_TRUE(files.ok());
  ASSERT_EQ(files->reasons().size(), 3u);
  EXPECT_THAT(files->reasons()[2].message(), HasSubstr("(and 11 more like it)"));
}

TEST(AdapterFiles, Warns) {
  Tensors tensors = Two();
  tensors[3] = F32Tensor(tensors[3].name, tensors[3].shape, std::vector<float>(128, 0.0f));
  const Result<AdapterFiles> files =
      Open(Config(R"("r":4,"alpha_pattern":{"q_porj":100},"target_modules":["q_proj","lm_head"])"),
           tensors);
  ASSERT_TRUE(files.ok());
  EXPECT_TRUE(files->reasons().empty());
  EXPECT_THAT(files->warnings(),
              ::testing::ElementsAre(
                  HasSubstr("key \"q_porj\" matches no module"),
                  HasSubstr("\"target_modules\": \"lm_head\" has no tensors"),
                  AllOf(HasSubstr("\"model.layers.1.self_attn.v_proj\""), HasSubstr("zeros"))));
}

TEST(AdapterFiles, ReadsShards) {
  TempDir dir;
  WriteFile(dir / "adapter_config.json", Config());
  const Tensors all = Two();
  WriteFile(dir / "adapter_model-00001-of-00002.safetensors",
            testing::SafetensorsBytes({all[0], all[2]}));
  WriteFile(dir / "adapter_model-00002-of-00002.safetensors",
            testing::SafetensorsBytes({all[1], all[3]}));
  EXPECT_FALSE(AdapterFiles::Open(dir.path()).ok()) << "shards without their index";
  std::string map;
  for (size_t i = 0; i < all.size(); ++i) {
    map += (i == 0 ? "\"" : ",\"") + all[i].name + "\":\"adapter_model-0000" +
           std::to_string(i % 2 + 1) + "-of-00002.safetensors\"";
  }
  WriteFile(dir / "adapter_model.safetensors.index.json",
            R"({"metadata":{},"weight_map":{)" + map + "}}");
  const Result<AdapterFiles> files = AdapterFiles::Open(dir.path());
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  EXPECT_EQ(files->modules().size(), 2u);
  EXPECT_EQ(files->Digest(), Digest(Config(), Two()));
}

TEST(AdapterFiles, NamesFoldersThatAreNoPeftAdapter) {
  struct Row {
    std::vector<std::string> files;
    const char* message;
  };
  const Row rows[] = {
      {{"README.md"}, "expected an adapter_config.json, found none"},
      {{"default/adapter_config.json", "other/adapter_config.json"},
       "sub-folders with one: default, other"},
      {{"adapters.safetensors"}, "an MLX adapter"},
      {{"adapters.npz"}, "MLX"},
      {{"pytorch_lora_weights.safetensors"}, "image-model LoRA"},
      {{"adapter_model.pt"}, "torchtune"},
      {{"config.json", "model.safetensors"}, "a base model"},
      {{"adapter_config.json", "adapter_model.bin"}, "convert them to safetensors"},
      {{"adapter_config.json", "adapter_model.pt"}, "convert them to safetensors"},
      {{"adapter_config.json"}, "expected adapter_model.safetensors"},
      {{"adapter_config.json", "adapter_model.safetensors", "new_embeddings.safetensors"},
       "new_embeddings.safetensors"},
      {{"adapter_config.json/x"}, "regular file"},
  };
  for (const Row& row : rows) {
    TempDir dir;
    for (const std::string& file : row.files) WriteFile(dir / file, Config());
    const Result<AdapterFiles> files = AdapterFiles::Open(dir.path());
    ASSERT_FALSE(files.ok()) << row.message;
    EXPECT_THAT(files.status().message(), HasSubstr(row.message));
    EXPECT_THAT(files.status().message(), HasSubstr(dir.path()));
  }
  TempDir dir;
  WriteFile(dir / "x.gguf", "GGUF");
  EXPECT_THAT(AdapterFiles::Open(dir / "x.gguf").status().message(), HasSubstr("GGUF"));
  EXPECT_EQ(AdapterFiles::Open(dir / "none").status().code(), StatusCode::kNotFound);
  WriteFile(dir / "file", "");
  EXPECT_THAT(AdapterFiles::Open(dir / "file").status().message(), HasSubstr("found a file"));
}

TEST(AdapterFiles, LimitsTheFile) {
  TempDir dir;
  WriteAdapter(dir.path(), Config(), Two());
  EXPECT_EQ(AdapterFiles::Open(dir.path(), 100).status().code(), StatusCode::kOutOfRange);
}

TEST(AdapterFiles, DigestIsOfWhatChangesTheResult) {
  const std::string digest = Digest(Config(), Two());
  EXPECT_EQ(digest.size(), 64u);
  Tensors bare = Two();
  for (TestTensor& tensor : bare) tensor.name = tensor.name.substr(17);
  EXPECT_EQ(Digest(Config(), bare), digest) << "a prefix";
  EXPECT_EQ(Digest(Config(), {Two()[3], Two()[2], Two()[1], Two()[0]}), digest) << "the order";
  EXPECT_EQ(Digest(Config(R"("r":4,"lora_alpha":8.0,"lora_dropout":0.5)"), Two()), digest);
  EXPECT_EQ(Digest(Config(R"("r":4,"lora_alpha":4,"use_rslora":true)"), Two()), digest)
      << "the same scale";
  EXPECT_NE(Digest(Config(R"("r":4,"lora_alpha":9)"), Two()), digest);
  EXPECT_NE(Digest(Config(R"("r":4,"lora_alpha":8,"use_rslora":true)"), Two()), digest);
  EXPECT_NE(Digest(Config(R"("r":4,"lora_alpha":8,"alpha_pattern":{"v_proj":1})"), Two()), digest);
  Tensors other = Two();
  other[0].bytes[0] ^= 1;
  EXPECT_NE(Digest(Config(), other), digest);
  EXPECT_NE(Digest(Config(), LoraPair(kQ, 4, 64, 64)), digest);
  Tensors moved = Two();
  for (TestTensor& tensor : moved) {
    tensor.name.replace(tensor.name.find("layers.") + 7, 1, "7");
  }
  EXPECT_NE(Digest(Config(), moved), digest);
}

TEST(AdapterFiles, RandomShapesAreReadBack) {
  EXPECT_TRUE(rc::check([] {
    const int64_t rank = *rc::gen::inRange<int64_t>(1, 9);
    const int64_t k = *rc::gen::inRange<int64_t>(1, 40);
    const int64_t n = *rc::gen::inRange<int64_t>(1, 40);
    const int layers = *rc::gen::inRange(1, 5);
    Tensors tensors;
    for (int layer = 0; layer < layers; ++layer) {
      tensors = tensors + LoraPair("model.layers." + std::to_string(layer) + ".mlp.up_proj", rank,
                                   k, n, static_cast<uint32_t>(layer));
    }
    const Result<AdapterFiles> files = Open(
        Config("\"r\":" + std::to_string(rank) + ",\"lora_alpha\":" + std::to_string(k)), tensors);
    ASSERT_TRUE(files.ok()) << files.status().ToString();
    ASSERT_EQ(files->modules().size(), static_cast<size_t>(layers));
    for (const AdapterModule& module : files->modules()) {
      EXPECT_EQ(module.a.shape, (Shape{rank, k}));
      EXPECT_EQ(module.b.shape, (Shape{n, rank}));
      EXPECT_EQ(module.scale, static_cast<double>(k) / static_cast<double>(rank));
    }
  }));
}

TEST(AdapterFiles, SurvivesDamagedFiles) {
  const std::string bytes = testing::SafetensorsBytes(LoraPair(kQ, 4, 8, 8));
  EXPECT_TRUE(rc::check([&] {
    std::string damaged = bytes;
    const int edits = *rc::gen::inRange(1, 6);
    for (int i = 0; i < edits; ++i) {
      const size_t at = *rc::gen::inRange<size_t>(0, damaged.size());
      switch (*rc::gen::inRange(0, 3)) {
        case 0:
          damaged[at] = static_cast<char>(*rc::gen::arbitrary<uint8_t>());
          break;
        case 1:
          damaged.erase(at, *rc::gen::inRange<size_t>(1, 16));
          break;
        default:
          damaged.insert(at, damaged.substr(at / 2, 8));
      }
      if (damaged.empty()) break;
    }
    TempDir dir;
    WriteFile(dir / "adapter_config.json", Config());
    WriteFile(dir / "adapter_model.safetensors", damaged);
    const Result<AdapterFiles> files = AdapterFiles::Open(dir.path());
    if (!files.ok()) {
      EXPECT_THAT(files.status().message(), HasSubstr(dir.path()));
      return;
    }
    EXPECT_TRUE(!files->reasons().empty() || files->modules().size() == 1);
  }));
}

}  // namespace
}  // namespace lorica::formats
