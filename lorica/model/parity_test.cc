// The tiny models of tests/fixtures against what PEFT says of them in fp32, and promise 1 at the
// model's level: a row's bits do not depend on its company.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "lorica/formats/json.h"
#include "lorica/kernels/open_backend.h"
#include "lorica/model/test_world.h"

namespace lorica::model {
namespace {

using testing::DriveOptions;
using testing::Driver;
using testing::Folder;
using testing::Job;
using testing::kAdapters;
using testing::LogitDistance;
using testing::World;

constexpr double kTolerance = 2e-5;  // log-probability, tiny models
constexpr double kTooNear = 1e-3;    // PEFT's own best two: a tie that rounding decides

std::vector<int32_t> Ints(const boost::json::value& array) {
  std::vector<int32_t> ints;
  for (const boost::json::value& value : array.as_array()) {
    ints.push_back(static_cast<int32_t>(value.as_int64()));
  }
  return ints;
}

std::string VariantName(lora::SlotId slot) {
  return slot == lora::kBaseModel ? "base" : kAdapters[slot.index];
}

// Base and all adapters over all prompts, in the same steps.
void ExpectParity(const std::string& family, std::unique_ptr<kernels::Backend> backend,
                  int threads) {
  World world(family, std::move(backend), threads);
  ASSERT_TRUE(world.loaded());
  const auto parsed = formats::ReadJsonFile(Folder(family) + "/goldens.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  const boost::json::object& goldens = parsed->as_object();
  const boost::json::array& prompts = goldens.at("prompts").as_array();
  const std::vector<int32_t> greedy = Ints(goldens.at("greedy_prompts"));

  std::vector<Job> jobs;
  for (size_t p = 0; p < prompts.size(); ++p) {
    const bool generate = std::find(greedy.begin(), greedy.end(), p) != greedy.end();
    for (int32_t slot = -1; slot < 4; ++slot) {
      jobs.push_back({.tokens = Ints(prompts[p]), .slot = {slot}, .generate = generate ? 12 : 0});
    }
  }
  world.Run(&jobs, {.max_rows = 48, .chunk = 20});

  double worst = 0.0;
  for (size_t j = 0; j < jobs.size(); ++j) {
    const size_t p = j / 5;
    const std::string variant = VariantName(jobs[j].slot);
    SCOPED_TRACE(family + " " + variant + ", prompt " + std::to_string(p));
    const boost::json::object& golden = goldens.at("variants").as_object().at(variant).as_object();
    const boost::json::array& expected = golden.at("logprobs").as_array()[p].as_array();
    ASSERT_GE(jobs[j].log_probs.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const double difference = std::abs(jobs[j].log_probs[i] - expected[i].to_number<double>());
      worst = std::max(worst, difference);
      ASSERT_LE(difference, kTolerance) << "token " << i + 1;
    }
    const auto place = std::find(greedy.begin(), greedy.end(), p);
    if (place == greedy.end()) continue;
    const auto& tokens = golden.at("greedy").as_array()[place - greedy.begin()].as_object();
    const std::vector<int32_t> want = Ints(tokens.at("tokens"));
    const size_t prompt = prompts[p].as_array().size();
    for (size_t i = 0; i < want.size(); ++i) {
      if (tokens.at("gaps").as_array()[i].to_number<double>() < kTooNear) break;
      ASSERT_EQ(jobs[j].tokens[prompt + i], want[i]) << "greedy token " << i;
    }
  }
  std::printf("%s: worst log-probability difference %.2g\n", family.c_str(), worst);
}

class FamilyTest : public ::testing::TestWithParam<const char*> {};

TEST_P(FamilyTest, ReferenceBackendAgreesWithPeft) {
  ExpectParity(GetParam(), kernels::OpenReferenceBackend(kernels::Sums::kF64), 2);
}

TEST_P(FamilyTest, CpuBackendsAgreeWithPeft) {
  for (const std::string_view isa : kernels::RunnableIsas()) {
    SCOPED_TRACE(std::string(isa));
    auto backend = kernels::OpenCpuBackend(isa);
    ASSERT_TRUE(backend.ok()) << backend.status().ToString();
    ExpectParity(GetParam(), std::move(backend).value(), 2);
  }
}

std::vector<Job> IsolationJobs(size_t vocab) {
  std::vector<Job> jobs;
  for (int32_t i = 0; i < 12; ++i) {
    Job job;
    job.slot = {i % 5 - 1};
    const int32_t lengths[] = {1, 40, 17, 3, 290, 16, 33, 64, 5, 100, 2, 48};
    for (int32_t t = 0; t < lengths[i]; ++t) {
      job.tokens.push_back(static_cast<int32_t>((t * 37 + i * 11 + t * t) % vocab));
    }
    job.generate = i % 3 == 0 ? 4 : 0;
    jobs.push_back(std::move(job));
  }
  return jobs;
}

void ExpectSameBits(const std::vector<Job>& a, const std::vector<Job>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t j = 0; j < a.size(); ++j) {
    ASSERT_EQ(a[j].tokens, b[j].tokens) << "job " << j;
    ASSERT_EQ(a[j].logits.size(), b[j].logits.size()) << "job " << j;
    for (size_t i = 0; i < a[j].logits.size(); ++i) {
      ASSERT_EQ(std::memcmp(a[j].logits[i].data(), b[j].logits[i].data(),
                            a[j].logits[i].size() * sizeof(float)),
                0)
          << "job " << j << ", position " << i;
    }
  }
}

// One job in each step.
std::vector<Job> RunAlone(World* world, std::vector<Job> jobs, const DriveOptions& options) {
  for (Job& job : jobs) {
    std::vector<Job> one = {std::move(job)};
    world->Run(&one, options);
    job = std::move(one[0]);
  }
  return jobs;
}

void ExpectIsolation(const std::string& family, std::string_view isa, const ModelOptions& load,
                     DType kv_dtype) {
  const auto open = [&] {
    auto backend = kernels::OpenCpuBackend(isa);
    EXPECT_TRUE(backend.ok());
    return std::move(backend).value();
  };
  World two(family, open(), 2, load);
  ASSERT_TRUE(two.loaded());
  const auto vocab = static_cast<size_t>(two.model().config().vocab);
  DriveOptions options{.max_rows = 512, .chunk = 512, .kv_dtype = kv_dtype, .keep_logits = true};
  const std::vector<Job> alone = RunAlone(&two, IsolationJobs(vocab), options);
  for (const auto& [max_rows, chunk, threads] : {std::array{512, 512, 2}, std::array{16, 16, 1},
                                                 std::array{64, 7, 3}, std::array{31, 31, 2}}) {
    SCOPED_TRACE("rows " + std::to_string(max_rows) + ", chunk " + std::to_string(chunk) +
                 ", threads " + std::to_string(threads));
    World other(family, open(), threads, load);
    ASSERT_TRUE(other.loaded());
    std::vector<Job> jobs = IsolationJobs(vocab);
    options.max_rows = max_rows;
    options.chunk = chunk;
    options.first_page = chunk;
    other.Run(&jobs, options);
    ExpectSameBits(alone, jobs);
  }
}

TEST_P(FamilyTest, RowsAreTheSameBitsInAnyCompany) {
  // Kernels have their own test on every set; here one model runs on all, the others on the best.
  std::vector<std::string_view> isas = kernels::RunnableIsas();
  if (std::string(GetParam()) != "llama") isas = {isas.back()};
  for (const std::string_view isa : isas) {
    SCOPED_TRACE(std::string(isa));
    ExpectIsolation(GetParam(), isa, {.compute_type = ComputeType::kFloat32}, DType::kF32);
    ExpectIsolation(GetParam(), isa, {.compute_type = ComputeType::kBfloat16}, DType::kBF16);
    const bool is_gguf = std::string(GetParam()) == "llama_gguf";
    const WeightType four_bit = is_gguf ? WeightType::kGguf : WeightType::kQ4;
    ExpectIsolation(GetParam(), isa,
                    {.compute_type = ComputeType::kFloat32, .weight_type = WeightType::kInt8},
                    DType::kF32);
    ExpectIsolation(GetParam(), isa,
                    {.compute_type = ComputeType::kBfloat16, .weight_type = four_bit},
                    DType::kBF16);
  }
}

std::vector<Job> LogitsOf(const std::string& family, std::unique_ptr<kernels::Backend> backend,
                          WeightType weights) {
  World world(family, std::move(backend), 1,
              {.compute_type = ComputeType::kFloat32, .weight_type = weights});
  EXPECT_TRUE(world.loaded());
  std::vector<Job> jobs = IsolationJobs(static_cast<size_t>(world.model().config().vocab));
  for (Job& job : jobs) job.generate = 0;
  world.Run(&jobs, {.max_rows = 512, .chunk = 512, .keep_logits = true});
  return jobs;
}

// The blocks of a file as they are: what is left is the rounding of activations to int8, which is
// the same for the scalar reference.
TEST(Weights, BlocksAsTheyAreEqualTheDequantisedRunWithinActivationRounding) {
  const auto best = [] { return kernels::OpenCpuBackend().value(); };
  const std::vector<Job> exact = LogitsOf("llama_gguf", best(), WeightType::kAuto);
  const std::vector<Job> blocks = LogitsOf("llama_gguf", best(), WeightType::kGguf);
  const std::vector<Job> reference =
      LogitsOf("llama_gguf", kernels::OpenReferenceBackend(kernels::Sums::kF64), WeightType::kGguf);
  const double rounding = LogitDistance(exact, blocks);
  std::printf("blocks as they are: logits %.2g off the dequantised run, %.2g off the reference\n",
              rounding, LogitDistance(reference, blocks));
  EXPECT_LE(rounding, 0.02);
  EXPECT_GT(rounding, 0.0);
  // A sum's last bit may move an activation by one step of its 127.
  EXPECT_LE(LogitDistance(reference, blocks), 0.003);
}

// Tiny random models are rougher than trained ones: tools/weights_quality.py measures those.
TEST(Weights, BytesAndNibblesStayNearTheExactRun) {
  const auto best = [] { return kernels::OpenCpuBackend().value(); };
  const std::vector<Job> exact = LogitsOf("llama", best(), WeightType::kAuto);
  EXPECT_LE(LogitDistance(exact, LogitsOf("llama", best(), WeightType::kInt8)), 0.05);
  EXPECT_LE(LogitDistance(exact, LogitsOf("llama", best(), WeightType::kQ4)), 0.3);
}

INSTANTIATE_TEST_SUITE_P(Tiny, FamilyTest,
                         ::testing::Values("llama", "llama_gguf", "qwen2", "qwen3"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace lorica::model
