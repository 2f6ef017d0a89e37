// A model of ggml's super-blocks, typed as the usual Q4_K_M file: a tied embedding, v and down in
// Q6_K, the other linears in Q4_K.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>

#include "lorica/formats/test_files.h"
#include "lorica/formats/test_gguf.h"
#include "lorica/kernels/open_backend.h"
#include "lorica/model/test_driver.h"

namespace lorica::model {
namespace {

using formats::testing::GgufBuilder;
using formats::testing::Raw;
using formats::testing::TempDir;
using formats::testing::Text;
using formats::testing::WriteFile;
using testing::Driver;
using testing::Job;
using testing::LogitDistance;

constexpr int64_t kWidth = 256;
constexpr int64_t kFfn = 512;
constexpr int64_t kVocab = 96;
constexpr int32_t kLayers = 2;
constexpr uint32_t kTensorQ4K = 12;
constexpr uint32_t kTensorQ6K = 14;

// Random integers and small scales under scales that give weights of about `spread`.
std::string RandomBlocks(DType dtype, int64_t weights, float spread, std::mt19937* random) {
  std::string bytes(static_cast<size_t>(ElementsToBytes(dtype, weights)), '\0');
  for (char& byte : bytes) byte = static_cast<char>((*random)());
  const auto block = static_cast<size_t>(BlockBytes(dtype));
  for (size_t at = 0; at < bytes.size(); at += block) {
    const float d = spread * (0.8f + 0.1f * static_cast<float>((*random)() % 5));
    if (dtype == DType::kQ6_K) {
      bytes.replace(at + block - 2, 2, Raw(F32ToF16(d / 1370.0f)));
    } else {
      // The mean of the minima is that of the rest: weights of mean zero.
      bytes.replace(at, 4, Raw(F32ToF16(d / 258.0f)) + Raw(F32ToF16(d * 7.5f / 258.0f)));
    }
  }
  return bytes;
}

GgufBuilder MakeModel() {
  std::mt19937 random(1);
  GgufBuilder gguf;
  const auto u32 = [&](const std::string& key, uint32_t value) { gguf.Key(key, 4, Raw(value)); };
  const auto f32 = [&](const std::string& key, float value) { gguf.Key(key, 6, Raw(value)); };
  gguf.Key("general.architecture", formats::testing::kString, Text("llama"));
  u32("llama.block_count", kLayers);
  u32("llama.embedding_length", kWidth);
  u32("llama.feed_forward_length", kFfn);
  u32("llama.attention.head_count", 4);
  u32("llama.attention.head_count_kv", 2);
  u32("llama.context_length", 512);
  f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  const auto add = [&](const std::string& name, std::vector<int64_t> ne, uint32_t type,
                       const std::string& bytes) {
    gguf.Tensor(name + ".weight", ne, type, gguf.data.size());
    gguf.data += bytes;
    gguf.data.resize((gguf.data.size() + 31) / 32 * 32);
  };
  const auto matrix = [&](const std::string& name, int64_t k, int64_t n, uint32_t type) {
    const DType dtype = type == kTensorQ4K ? DType::kQ4_K : DType::kQ6_K;
    const float spread = name == "token_embd" ? 1.0f : 1.0f / std::sqrt(static_cast<float>(k));
    add(name, {k, n}, type, RandomBlocks(dtype, n * k, spread, &random));
  };
  const auto norm = [&](const std::string& name) {
    std::string bytes;
    for (int64_t i = 0; i < kWidth; ++i) bytes += Raw(1.0f);
    add(name, {kWidth}, formats::testing::kTensorF32, bytes);
  };
  matrix("token_embd", kWidth, kVocab, kTensorQ6K);
  for (int32_t layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    matrix(prefix + "attn_q", kWidth, kWidth, kTensorQ4K);
    matrix(prefix + "attn_k", kWidth, kWidth / 2, kTensorQ4K);
    matrix(prefix + "attn_v", kWidth, kWidth / 2, kTensorQ6K);
    matrix(prefix + "attn_output", kWidth, kWidth, kTensorQ4K);
    matrix(prefix + "ffn_gate", kWidth, kFfn, kTensorQ4K);
    matrix(prefix + "ffn_up", kWidth, kFfn, kTensorQ4K);
    matrix(prefix + "ffn_down", kFfn, kWidth, kTensorQ6K);
    norm(prefix + "attn_norm");
    norm(prefix + "ffn_norm");
  }
  norm("output_norm");
  return gguf;
}

std::vector<Job> Jobs() {
  std::vector<Job> jobs;
  for (int32_t i = 0; i < 6; ++i) {
    Job job;
    const int32_t lengths[] = {1, 40, 17, 130, 3, 64};
    for (int32_t t = 0; t < lengths[i]; ++t) {
      job.tokens.push_back(static_cast<int32_t>((t * 37 + i * 11 + t * t) % kVocab));
    }
    jobs.push_back(std::move(job));
  }
  return jobs;
}

// Rows whose logits differ by at most `most`, relative to their size.
int RowsWithin(double most, const std::vector<Job>& a, const std::vector<Job>& b) {
  int rows = 0;
  for (size_t j = 0; j < a.size(); ++j) {
    for (size_t i = 0; i < a[j].logits.size(); ++i) {
      Job one, other;
      one.logits = {a[j].logits[i]};
      other.logits = {b[j].logits[i]};
      rows += LogitDistance({one}, {other}) <= most ? 1 : 0;
    }
  }
  return rows;
}

class SuperBlockModel : public ::testing::Test {
 protected:
  void SetUp() override { WriteFile(dir_ / "model.gguf", MakeModel().Bytes()); }

  std::unique_ptr<Model> Load(const kernels::Backend& backend, WeightType weights) {
    auto model = Model::Load(dir_ / "model.gguf",
                             {.compute_type = ComputeType::kFloat32, .weight_type = weights},
                             &backend, &context_);
    LORICA_CHECK(model.ok());
    return std::move(model).value();
  }
  std::vector<Job> Run(const Model& model, std::vector<Job> jobs) {
    const testing::TestAdapters none(model, 1);
    Driver(model, none.table(), &context_)
        .Run(&jobs, {.max_rows = 512, .chunk = 512, .keep_logits = true});
    return jobs;
  }
  std::vector<Job> LogitsOf(const kernels::Backend& backend, WeightType weights) {
    return Run(*Load(backend, weights), Jobs());
  }

  TempDir dir_;
  MachineContext context_{2};
};

TEST_F(SuperBlockModel, EqualsTheDequantisedRunWithinActivationRounding) {
  const auto best = kernels::OpenCpuBackend().value();
  const auto reference = kernels::OpenReferenceBackend(kernels::Sums::kF64);
  const std::vector<Job> exact = LogitsOf(*best, WeightType::kAuto);
  const std::vector<Job> blocks = LogitsOf(*best, WeightType::kGguf);
  const std::vector<Job> expected = LogitsOf(*reference, WeightType::kGguf);
  const double rounding = LogitDistance(exact, blocks);
  std::printf(
      "super-blocks as they are: logits %.2g off the dequantised run, %.2g off the "
      "reference\n",
      rounding, LogitDistance(expected, blocks));
  EXPECT_LE(rounding, 0.02);
  EXPECT_GT(rounding, 0.0);
  EXPECT_NEAR(rounding, LogitDistance(exact, expected), 0.1 * rounding);
  // A sum's last bit may move an activation by one of its 127 steps, which moves the rest of the
  // sequence by as much as rounding does. Rows before that are the reference's.
  EXPECT_GE(RowsWithin(1e-6, expected, blocks), 10);
}

// The scales lie at either end of a super-block: each is looked at.
TEST_F(SuperBlockModel, AScaleThatIsNotFiniteIsRefused) {
  const auto backend = kernels::OpenCpuBackend().value();
  const GgufBuilder gguf = MakeModel();
  const std::string whole = gguf.Bytes();
  const size_t data = whole.size() - gguf.data.size();
  const int64_t table = ElementsToBytes(DType::kQ6_K, kVocab * kWidth);
  for (const int64_t at : {table - 2, table, table + 2}) {
    std::string bytes = whole;
    bytes.replace(data + static_cast<size_t>(at), 2, Raw<uint16_t>(0x7c00));
    WriteFile(dir_ / "model.gguf", bytes);
    for (const WeightType weights : {WeightType::kAuto, WeightType::kGguf}) {
      const auto model =
          Model::Load(dir_ / "model.gguf", {.weight_type = weights}, backend.get(), &context_);
      ASSERT_FALSE(model.ok()) << at;
      EXPECT_NE(model.status().message().find("finite"), std::string::npos)
          << model.status().ToString();
    }
  }
}

TEST_F(SuperBlockModel, RowsAreTheSameBitsInAnyCompanyOnEverySet) {
  const std::vector<Job> jobs = Jobs();
  for (const std::string_view isa : kernels::RunnableIsas()) {
    SCOPED_TRACE(std::string(isa));
    const auto backend = kernels::OpenCpuBackend(isa).value();
    const auto model = Load(*backend, WeightType::kGguf);
    const std::vector<Job> together = Run(*model, jobs);
    for (size_t j = 0; j < jobs.size(); ++j) {
      const std::vector<Job> alone = Run(*model, {jobs[j]});
      EXPECT_EQ(alone[0].logits, together[j].logits) << "job " << j;
    }
  }
}

}  // namespace
}  // namespace lorica::model
