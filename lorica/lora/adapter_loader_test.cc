#include "lorica/lora/adapter_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "lorica/base/test_chances.h"
#include "lorica/formats/test_files.h"

namespace lorica::lora {
namespace {

using formats::testing::F32Tensor;
using formats::testing::LoraPair;
using formats::testing::PeftName;
using formats::testing::SmallValues;
using formats::testing::TempDir;
using formats::testing::TestTensor;
using formats::testing::WriteAdapter;
using ::testing::HasSubstr;

using Tensors = std::vector<TestTensor>;

Tensors operator+(Tensors left, const Tensors& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

// A Llama of two layers: width 64, 4 heads and 2 kv heads of 16, ffn 128, vocabulary 128.
class TinyBase : public BaseView {
 public:
  explicit TinyBase(bool tied = true) : tied_(tied) {}

  SiteSpace sites() const override { return {2}; }
  SiteShape Shape(SiteId site) const override {
    if (!sites().IsLinear(site)) return {64, 128};
    switch (sites().ProjectionOf(site)) {
      case Projection::kQ:
      case Projection::kO:
        return {64, 64};
      case Projection::kK:
      case Projection::kV:
        return {64, 32};
      case Projection::kGate:
      case Projection::kUp:
        return {64, 128};
      case Projection::kDown:
        return {128, 64};
    }
    return {};
  }
  bool tied_head() const override { return tied_; }
  void BaseRow(SiteId site, int64_t n, std::span<float> row) const override {
    for (size_t k = 0; k < row.size(); ++k) row[k] = Value(site, n, static_cast<int64_t>(k));
  }
  const std::string& digest() const override { return digest_; }

  // Not exact in bf16.
  static float Value(SiteId site, int64_t n, int64_t k) {
    return 1.0f + static_cast<float>(site.index * 128 * 64 + n * 64 + k) * 0x1p-20f;
  }
  Tensors Copy(SiteId site, const std::string& name, int64_t rows = 128) const {
    std::vector<float> values;
    for (int64_t n = 0; n < rows; ++n) {
      for (int64_t k = 0; k < 64; ++k) values.push_back(Value(site, n, k));
    }
    return {F32Tensor(PeftName(name, "weight"), {rows, 64}, values)};
  }

 private:
  bool tied_;
  std::string digest_ = std::string(64, 'b');
};

std::string Layer(int layer, const std::string& rest) {
  return "model.layers." + std::to_string(layer) + "." + rest;
}

constexpr const char* kConfig = R"({"peft_type":"LORA","r":4,"lora_alpha":8})";

struct Loaded {
  Result<std::shared_ptr<const Adapter>> adapter;
  AdapterReport report;
  std::vector<std::string> warnings;
};

Loaded Load(const Tensors& tensors, const std::string& config = kConfig,
            const TinyBase& base = TinyBase(), const LoadOptions& options = {}) {
  TempDir dir;
  WriteAdapter(dir.path(), config, tensors);
  std::vector<std::string> warnings;
  Loaded loaded{LoadAdapter(dir.path(), base, options, &warnings),
                InspectAdapter(dir.path(), &base, options),
                {}};
  loaded.warnings = warnings;
  EXPECT_EQ(loaded.adapter.ok(), loaded.report.reasons.empty());
  if (!loaded.adapter.ok()) {
    EXPECT_THAT(loaded.adapter.status().message(), HasSubstr(dir.path()));
    EXPECT_THAT(loaded.adapter.status().message(), HasSubstr(loaded.report.reasons[0].message()));
  }
  return loaded;
}

std::vector<float> Values(const Factor& factor, int64_t elements) {
  std::vector<float> values(static_cast<size_t>(elements));
  DequantizeRow(factor.dtype, factor.data, elements, values.data());
  return values;
}

TEST(AdapterLoader, LoadsEverySiteExactly) {
  MemoryLedger ledger;
  const TinyBase base;
  Tensors tensors;
  for (const int layer : {1, 0}) {
    tensors = tensors + LoraPair(Layer(layer, "self_attn.q_proj"), 4, 64, 64, 1 + layer);
    tensors = tensors + LoraPair(Layer(layer, "self_attn.k_proj"), 4, 64, 32, 11 + layer);
    tensors = tensors + LoraPair(Layer(layer, "self_attn.v_proj"), 4, 64, 32, 21 + layer);
    tensors = tensors + LoraPair(Layer(layer, "self_attn.o_proj"), 4, 64, 64, 31 + layer);
    tensors = tensors + LoraPair(Layer(layer, "mlp.gate_proj"), 4, 64, 128, 41 + layer);
    tensors = tensors + LoraPair(Layer(layer, "mlp.up_proj"), 4, 64, 128, 51 + layer);
    tensors = tensors + LoraPair(Layer(layer, "mlp.down_proj"), 4, 128, 64, 61 + layer);
  }
  {
    const Loaded loaded = Load(tensors, kConfig, base, {.ledger = &ledger});
    ASSERT_TRUE(loaded.adapter.ok()) << loaded.adapter.status().ToString();
    const Adapter& adapter = **loaded.adapter;
    EXPECT_EQ(adapter.digest(), loaded.report.digest);
    ASSERT_EQ(adapter.sites().size(), 14u);
    EXPECT_EQ(adapter.max_rank(), 4);
    EXPECT_EQ(ledger.bytes(MemoryTag::kAdapterCold), adapter.bytes());
    for (const SiteFactors& site : adapter.sites()) {
      EXPECT_EQ(site.shape, base.Shape(site.site));
      EXPECT_EQ(site.scale, 2.0);
      EXPECT_EQ(site.a.dtype, DType::kBF16) << "f32 in the file, exact in bf16";
      EXPECT_EQ(reinterpret_cast<uintptr_t>(site.a.data) % kBufferAlignment, 0u);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(site.b.data) % kBufferAlignment, 0u);
      const uint32_t seed = static_cast<uint32_t>(site.site.index % kProjections) * 10 + 1 +
                            static_cast<uint32_t>(base.sites().Layer(site.site));
      const int64_t a = 4 * site.shape.k;
      const int64_t b = 4 * site.shape.n;
      EXPECT_EQ(Values(site.a, a), SmallValues(a, seed)) << base.sites().Name(site.site);
      EXPECT_EQ(Values(site.b, b), SmallValues(b, seed + 7)) << base.sites().Name(site.site);
    }
  }
  EXPECT_EQ(ledger.bytes(MemoryTag::kAdapterCold), 0);
}

TEST(AdapterLoader, KeepsTheNarrowestExactType) {
  EXPECT_TRUE(rc::check([] {
    const auto values = *rc::gen::container<std::vector<float>>(
        256,
        rc::gen::oneOf(
            rc::gen::map(rc::gen::inRange(-4000, 4000), [](int i) { return i * 0.0009765625f; }),
            rc::gen::map(rc::gen::inRange(-100, 100), [](int i) { return i * 0.125f; }),
            rc::gen::map(rc::gen::inRange(-100, 100), [](int i) { return std::ldexp(1.0f, i); })));
    const std::string q = Layer(0, "self_attn.q_proj");
    const Loaded loaded = Load({F32Tensor(PeftName(q, "lora_A.weight"), {4, 64}, values),
                                F32Tensor(PeftName(q, "lora_B.weight"), {64, 4}, values)});
    ASSERT_TRUE(loaded.adapter.ok());
    const SiteFactors& site = (*loaded.adapter)->sites()[0];
    EXPECT_EQ(Values(site.a, 256), values);
    EXPECT_EQ(Values(site.b, 256), values);
    const auto exact = [&](auto cast) {
      return std::all_of(values.begin(), values.end(), [&](float v) { return cast(v) == v; });
    };
    const bool bf16 = exact([](float v) { return Bf16ToF32(F32ToBf16(v)); });
    const bool f16 = exact([](float v) { return F16ToF32(F32ToF16(v)); });
    EXPECT_EQ(site.a.dtype, bf16 ? DType::kBF16 : f16 ? DType::kF16 : DType::kF32);
  }));
}

struct FitRow {
  const char* report;
  Tensors tensors;
  const char* reason;  // null when it loads
};

TEST(AdapterLoader, FitsOrSaysWhyNot) {
  const TinyBase tied;
  const SiteId embedding = tied.sites().Embedding();
  const std::string q0 = Layer(0, "self_attn.q_proj");
  const Tensors pair = LoraPair(q0, 4, 64, 64);
  Tensors bare = pair;
  for (TestTensor& tensor : bare) tensor.name = tensor.name.substr(17);
  const std::vector<FitRow> rows = {
      {"plain", pair, nullptr},
      {"no prefix", bare, nullptr},
      {"peft#2155", LoraPair("layers.0.self_attn.q_proj", 4, 64, 64), nullptr},
      {"LlamaFactory#10294", LoraPair("model.language_model." + q0.substr(6), 4, 64, 64), nullptr},
      {"older multimodal", LoraPair("language_model." + q0, 4, 64, 64), nullptr},
      {"two wrappers", pair + LoraPair("language_model." + Layer(1, "mlp.up_proj"), 4, 64, 128),
       "found a linear under another prefix than the others"},
      {"vllm#21500", pair + LoraPair("visual.blocks.0.attn.qkv", 4, 64, 64),
       "module \"visual.blocks.0.attn.qkv\": expected one of the linears"},
      {"sglang#16550", pair + LoraPair(Layer(0, "linear_attn.in_proj_qkvz"), 4, 64, 64),
       "\"model.layers.0.linear_attn.in_proj_qkvz\""},
      {"vllm P47088", pair + LoraPair(Layer(0, "mlp.shared_expert.up_proj"), 4, 64, 64),
       "a linear of an expert"},
      {"llama.cpp#3519", pair + LoraPair(Layer(0, "self_attn.W_pack"), 4, 64, 128),
       "a fused projection"},
      {"peft P1705", pair + LoraPair(Layer(0, "self_attn.qkv_proj"), 4, 64, 128),
       "a fused projection"},
      {"llama.cpp#3651", pair + LoraPair("lm_head", 4, 64, 128), "the output head"},
      {"tinker P593", pair + LoraPair("unembed_tokens", 4, 64, 128), "the output head"},
      {"layer out of range", LoraPair(Layer(2, "self_attn.q_proj"), 4, 64, 64),
       "expected a layer from 0 to 1, as the base has them, found layer 2"},
      {"K differs", LoraPair(q0, 4, 60, 64),
       "expected lora_A [R, 64] and lora_B [64, R], as the base has it, found [4, 60] and [64, 4]"},
      {"N differs", LoraPair(Layer(0, "self_attn.k_proj"), 4, 64, 64),
       "lora_B [32, R], as the base has it, found [4, 64] and [64, 4]"},
      {"peft#1554", pair + tied.Copy(embedding, "model.embed_tokens"), nullptr},
      {"llama.cpp#5602", pair + tied.Copy(embedding, "lm_head.base_layer"), nullptr},
      {"tied head saved beside", pair + tied.Copy(embedding, "lm_head"), nullptr},
      {"peft#838", pair + tied.Copy(embedding, "model.embed_tokens", 132),
       "expected shape [128, 64], as the base has it, found [132, 64] (rows for added tokens"},
      {"mergekit#328", pair + tied.Copy(embedding, "lm_head", 132), "found [132, 64]"},
      {"vllm#9280", pair + tied.Copy(tied.sites().Head(), "lm_head"),
       "expected the base's own values (a replacement is not served), found another one in row 0"},
      {"empty", {}, "expected at least one pair"},
  };
  for (const FitRow& row : rows) {
    const Loaded loaded = Load(row.tensors);
    if (row.reason == nullptr) {
      EXPECT_TRUE(loaded.adapter.ok()) << row.report << ": " << loaded.adapter.status().ToString();
      continue;
    }
    ASSERT_EQ(loaded.report.reasons.size(), 1u) << row.report;
    EXPECT_THAT(loaded.report.reasons[0].message(), HasSubstr(row.reason)) << row.report;
  }
}

TEST(AdapterLoader, UntiedHeadsAreComparedWithTheHead) {
  const TinyBase untied(false);
  const Tensors pair = LoraPair(Layer(0, "self_attn.q_proj"), 4, 64, 64);
  EXPECT_TRUE(
      Load(pair + untied.Copy(untied.sites().Head(), "lm_head"), kConfig, untied).adapter.ok());
  EXPECT_FALSE(Load(pair + untied.Copy(untied.sites().Embedding(), "lm_head"), kConfig, untied)
                   .adapter.ok());
}

TEST(AdapterLoader, AcceptsACopyRoundedToItsOwnType) {
  const TinyBase base;
  Tensors copy = base.Copy(base.sites().Embedding(), "model.embed_tokens");
  std::vector<float> values(128 * 64);
  std::memcpy(values.data(), copy[0].bytes.data(), copy[0].bytes.size());
  copy[0] = formats::testing::Bf16Tensor(copy[0].name, copy[0].shape, values);
  EXPECT_TRUE(Load(LoraPair(Layer(0, "mlp.up_proj"), 4, 64, 128) + copy).adapter.ok());
  copy[0].bytes[777 * 2] ^= 1;
  EXPECT_FALSE(Load(LoraPair(Layer(0, "mlp.up_proj"), 4, 64, 128) + copy).adapter.ok());
}

TEST(AdapterLoader, LimitsTheRank) {
  const Tensors tensors = LoraPair(Layer(0, "mlp.up_proj"), 64, 64, 128) +
                          LoraPair(Layer(1, "mlp.up_proj"), 64, 64, 128);
  const std::string config = R"({"peft_type":"LORA","r":64})";
  const Loaded refused = Load(tensors, config, TinyBase(), {.max_rank = 16});
  ASSERT_EQ(refused.report.reasons.size(), 1u);
  EXPECT_EQ(refused.report.reasons[0].message(),
            "module \"model.layers.0.mlp.up_proj\": rank 64 is over the limit of 16 (and 1 more "
            "like it)");
  EXPECT_EQ(refused.report.reasons[0].code(), StatusCode::kOutOfRange);
  EXPECT_TRUE(Load(tensors, config, TinyBase(), {.max_rank = 64}).adapter.ok());
}

TEST(AdapterLoader, ReportsEveryReasonAndFailsWithTheFirst) {
  const Loaded loaded =
      Load(LoraPair(Layer(9, "mlp.up_proj"), 4, 64, 128) + LoraPair("lm_head", 4, 64, 128),
           R"({"peft_type":"LORA","r":4,"use_dora":true,"odd":1})");
  EXPECT_EQ(loaded.report.reasons.size(), 4u);
  EXPECT_THAT(loaded.adapter.status().message(), HasSubstr("[and 3 other reasons]"));
  EXPECT_TRUE(loaded.report.digest.empty());
}

TEST(AdapterLoader, InspectsWithoutABase) {
  TempDir dir;
  WriteAdapter(dir.path(), R"({"peft_type":"LORA","r":4,"lora_alpha":2,"use_rslora":true})",
               LoraPair(Layer(40, "mlp.up_proj"), 4, 9, 7));
  const AdapterReport report = InspectAdapter(dir.path(), nullptr, {});
  EXPECT_TRUE(report.reasons.empty());
  EXPECT_EQ(report.digest.size(), 64u);
  ASSERT_EQ(report.modules.size(), 1u);
  EXPECT_EQ(report.modules[0].scale, 1.0);
  EXPECT_EQ(report.modules[0].k, 9);
  EXPECT_EQ(report.modules[0].n, 7);
  EXPECT_EQ(InspectAdapter(dir / "none", nullptr, {}).reasons.size(), 1u);
}

TEST(AdapterLoader, PassesWarningsOn) {
  const Loaded loaded = Load(LoraPair(Layer(0, "mlp.up_proj"), 4, 64, 128),
                             R"({"peft_type":"LORA","r":4,"rank_pattern":{"q_porj":4}})");
  EXPECT_TRUE(loaded.adapter.ok());
  ASSERT_EQ(loaded.warnings.size(), 1u);
  EXPECT_EQ(loaded.warnings, loaded.report.warnings);
}

// Reading, looking at each value, the digest and the copies, of factors that stay as they are.
TEST(AdapterLoader, GivesWayAtEachStage) {
  constexpr int64_t kRank = 8'000;
  Tensors tensors;
  int64_t bytes = 0;
  for (const TestTensor& tensor : LoraPair(Layer(0, "mlp.up_proj"), kRank, 64, 128)) {
    const auto* values = reinterpret_cast<const float*>(tensor.bytes.data());
    tensors.push_back(formats::testing::Bf16Tensor(
        tensor.name, tensor.shape, {values, values + tensor.bytes.size() / sizeof(float)}));
    bytes += static_cast<int64_t>(tensors.back().bytes.size());
  }
  TempDir dir;
  WriteAdapter(dir.path(), R"({"peft_type":"LORA","r":8000,"lora_alpha":8})", tensors);
  const TinyBase base;
  const int64_t chances =
      ChancesIn([&] { EXPECT_TRUE(LoadAdapter(dir.path(), base, {}, nullptr).ok()); });
  const int64_t kilobytes = bytes >> 10;
  const int64_t copies = kilobytes / 128;
  // A few more are small files and names; the copies are many more than those.
  EXPECT_GE(chances, kilobytes / 256 + kilobytes / 64 + kilobytes / 64 + copies);
  EXPECT_GT(copies, 20);
}

TEST(AdapterLoader, SurvivesDamagedFiles) {
  const std::string config = R"({"peft_type":"LORA","r":4,"alpha_pattern":{"(q|v)_proj":4}})";
  const std::string tensors =
      formats::testing::SafetensorsBytes(LoraPair(Layer(0, "mlp.up_proj"), 4, 64, 128));
  const TinyBase base;
  EXPECT_TRUE(rc::check([&] {
    std::string damaged_config = config;
    std::string damaged_tensors = tensors;
    std::string& damaged = *rc::gen::arbitrary<bool>() ? damaged_config : damaged_tensors;
    const size_t reach = std::min<size_t>(damaged.size(), 600);
    const size_t at = *rc::gen::inRange<size_t>(0, reach);
    damaged[at] = static_cast<char>(*rc::gen::arbitrary<uint8_t>());
    if (*rc::gen::inRange(0, 4) == 0) damaged.resize(at);
    TempDir dir;
    formats::testing::WriteFile(dir / "adapter_config.json", damaged_config);
    formats::testing::WriteFile(dir / "adapter_model.safetensors", damaged_tensors);
    const auto adapter = LoadAdapter(dir.path(), base, {}, nullptr);
    if (adapter.ok()) {
      EXPECT_EQ((*adapter)->sites().size(), 1u);
    } else {
      EXPECT_THAT(adapter.status().message(), HasSubstr(dir.path()));
    }
  }));
}

}  // namespace
}  // namespace lorica::lora
