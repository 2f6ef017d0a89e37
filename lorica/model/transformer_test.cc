#include "lorica/model/transformer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lorica/kernels/open_backend.h"
#include "lorica/kernels/reference_backend.h"
#include "lorica/model/step.h"
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

TEST(TransformerTest, RowsWithoutLogitsChangeNoBitOfTheOthers) {
  for (const char* family : {"llama", "qwen3"}) {
    for (const int threads : {1, 2}) {
      World world(family, Cpu(), threads);
      ASSERT_TRUE(world.loaded());
      DriveOptions options{.max_rows = 70, .chunk = 11, .keep_logits = true};
      std::vector<Job> all = JobsOn({-1, 2, 0, 1, 3, 0});
      world.Run(&all, options);
      for (const int32_t every : {2, 7, 1000}) {
        options.logit_every = every;
        std::vector<Job> some = JobsOn({-1, 2, 0, 1, 3, 0});
        const size_t prompt = some.front().tokens.size();
        world.Run(&some, options);
        for (size_t j = 0; j < all.size(); ++j) {
          ASSERT_EQ(some[j].tokens, all[j].tokens);
          std::vector<std::vector<float>> want;
          for (size_t position = 0; position < all[j].logits.size(); ++position) {
            const bool chooses = position + 1 >= prompt;
            if (chooses || (position + 1) % static_cast<size_t>(every) == 0) {
              want.push_back(all[j].logits[position]);
            }
          }
          ASSERT_EQ(some[j].logits, want) << family << " every " << every << " job " << j;
        }
      }
    }
  }
}

// Notes the rows of each linear.
class CountingBackend : public kernels::ReferenceBackend {
 public:
  explicit CountingBackend(std::vector<int64_t>* rows)
      : ReferenceBackend(kernels::Sums::kF32), rows_(rows) {}
  void LoraLinear(const kernels::LinearParams& params, const TeamMember& member) const override {
    rows_->push_back(params.rows);
    ReferenceBackend::LoraLinear(params, member);
  }

 private:
  std::vector<int64_t>* rows_;
};

TEST(TransformerTest, TheLastLayerGoesOnWithTheWantedRows) {
  std::vector<int64_t> rows;
  World world("llama", std::make_unique<CountingBackend>(&rows), 1);
  ASSERT_TRUE(world.loaded());
  const ModelConfig& config = world.model().config();
  auto transformer =
      Transformer::Create(&world.model(), {.max_rows = 8, .max_positions = 64}, &world.context());
  ASSERT_TRUE(transformer.ok());
  kernels::KvLayout layout{
      .layers = config.layers, .kv_heads = config.kv_heads, .head_dim = config.head_dim};
  auto pages = KvPages::Create(layout, layout.PageBytes(), nullptr);
  ASSERT_TRUE(pages.ok());
  const int32_t page = 0;
  Batch batch;
  batch.tokens = {1, 2, 3, 4, 5};
  batch.positions = {0, 1, 2, 3, 4};
  batch.slots.assign(5, {1});
  batch.sequences.push_back({.rows = 5, .pages = &page});
  for (const std::vector<int32_t>& wanted :
       {std::vector<int32_t>{}, std::vector<int32_t>{4}, std::vector<int32_t>{0, 3}}) {
    batch.logit_rows = wanted;
    rows.clear();
    (*transformer)->Plan(batch, world.adapters().table());
    (*transformer)->Forward(batch, &*pages);
    // q, k, v of every row and layer; of the last layer nothing else.
    const auto whole = static_cast<size_t>(config.layers * kLayerCalls - 3);
    std::vector<int64_t> want(whole, 5);
    if (!wanted.empty()) want.insert(want.end(), 3, static_cast<int64_t>(wanted.size()));
    EXPECT_EQ(rows, want);
  }
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
  for (const DType kv : {DType::kF32, DType::kBF16, DType::kF16, DType::kI8}) {
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
