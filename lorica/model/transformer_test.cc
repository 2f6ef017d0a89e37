#include "lorica/model/transformer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lorica/kernels/open_backend.h"
#include "lorica/model/test_world.h"

namespace lorica::model {
namespace {

using testing::DriveOptions;
using testing::Job;
using testing::World;

std::unique_ptr<kernels::Backend> Cpu() { return kernels::OpenCpuBackend().value(); }

std::vector<Job> JobsOn(const std::vector<int32_t>& slots) {
  std::vector<Job> jobs;
  for (const int32_t slot : slots) {
    Job job;
    job.slot = {slot};
    for (int32_t t = 0; t < 30; ++t) job.tokens.push_back((t * 13 + slot + 5) % 320);
    job.generate = 3;
    jobs.push_back(std::move(job));
  }
  return jobs;
}

TEST(TransformerTest, AStepOfTheBaseModelRunsNoLoraKernel) {
  World world("llama", Cpu(), 2);
  ASSERT_TRUE(world.loaded());
  std::vector<Job> jobs = JobsOn({-1, -1});
  world.Run(&jobs, {});
  const Trace& trace = world.context().trace;
  EXPECT_EQ(trace.counter(Zone::kLoraShrink).calls, 0);
  EXPECT_EQ(trace.counter(Zone::kLoraExpand).calls, 0);
  EXPECT_GT(trace.counter(Zone::kLinear).calls, 0);
  EXPECT_GT(trace.counter(Zone::kAttention).calls, 0);
  EXPECT_GT(trace.counter(Zone::kLogits).calls, 0);

  jobs = JobsOn({-1, 0});
  world.Run(&jobs, {});
  EXPECT_GT(trace.counter(Zone::kLoraShrink).calls, 0);
}

TEST(TransformerTest, UniformAdaptersShareFourPlans) {
  World world("llama", Cpu(), 2);
  ASSERT_TRUE(world.loaded());
  auto transformer =
      Transformer::Create(&world.model(), {.max_rows = 8, .max_positions = 64}, &world.context());
  ASSERT_TRUE(transformer.ok());
  Batch batch;
  batch.tokens = {1, 2, 3, 4};
  batch.positions = {0, 0, 0, 0};
  batch.slots = {{1}, lora::kBaseModel, {1}, {0}};
  (*transformer)->Plan(batch, world.adapters().table());
  EXPECT_EQ((*transformer)->segments(), 2);
  EXPECT_LE((*transformer)->distinct_plans(), 4);
  batch.slots.assign(4, lora::kBaseModel);
  (*transformer)->Plan(batch, world.adapters().table());
  EXPECT_EQ((*transformer)->segments(), 0);
  EXPECT_EQ((*transformer)->distinct_plans(), 0);
}

TEST(TransformerTest, SayWhenASequenceCouldOutgrowTheModel) {
  World world("qwen2", Cpu(), 1);
  ASSERT_TRUE(world.loaded());
  const auto transformer =
      Transformer::Create(&world.model(), {.max_rows = 8, .max_positions = 513}, &world.context());
  ASSERT_FALSE(transformer.ok());
  EXPECT_NE(transformer.status().message().find("512"), std::string::npos);
}

// Rank 1 on v of layer 0; its weights are finite, their product is not.
lora::Adapter OverflowingAdapter(const Model& model) {
  const lora::SiteId site = model.sites().Linear(0, lora::Projection::kV);
  const lora::SiteShape shape = model.Shape(site);
  Buffer storage =
      Buffer::Allocate((shape.k + shape.n) * 4, MemoryTag::kAdapterCold, nullptr).value();
  std::fill(storage.as<float>().begin(), storage.as<float>().end(), 1e30f);
  lora::Adapter::Content content;
  content.digest = std::string(64, '0');
  content.sites.push_back({.site = site,
                           .rank = 1,
                           .shape = shape,
                           .a = {storage.data(), DType::kF32},
                           .b = {storage.data() + shape.k * 4, DType::kF32},
                           .scale = 1e3});
  content.storage = std::move(storage);
  return lora::Adapter(std::move(content));
}

void ExpectSame(const Job& a, const Job& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.logits, b.logits);
}

TEST(TransformerTest, AnOverflowingTenantChangesNobodyElse) {
  World world("llama", Cpu(), 2);
  ASSERT_TRUE(world.loaded());
  world.adapters().Install({4}, OverflowingAdapter(world.model()));
  const DriveOptions options{.max_rows = 40, .chunk = 10, .keep_logits = true};
  std::vector<Job> calm = JobsOn({-1, 0, 1});
  world.Run(&calm, options);
  std::vector<Job> mixed = JobsOn({-1, 4, 0, 4, 1});
  world.Run(&mixed, options);
  EXPECT_FALSE(std::isfinite(mixed[1].logits.back()[0]));
  ExpectSame(mixed[0], calm[0]);
  ExpectSame(mixed[2], calm[1]);
  ExpectSame(mixed[4], calm[2]);
}

TEST(TransformerTest, StaleNansInPagesAreNeverMultiplied) {
  World world("qwen3", Cpu(), 2);
  ASSERT_TRUE(world.loaded());
  for (const DType kv : {DType::kF32, DType::kBF16, DType::kF16}) {
    DriveOptions options{.max_rows = 40, .chunk = 7, .kv_dtype = kv, .keep_logits = true};
    std::vector<Job> clean = JobsOn({-1, 2});
    world.Run(&clean, options);
    options.stale = 0xff;
    std::vector<Job> stale = JobsOn({-1, 2});
    world.Run(&stale, options);
    ExpectSame(clean[0], stale[0]);
    ExpectSame(clean[1], stale[1]);
    EXPECT_TRUE(std::isfinite(stale[0].logits.back()[0]));
  }
}

}  // namespace
}  // namespace lorica::model
