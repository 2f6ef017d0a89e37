// A whole network on the AI Core model: base and adapters in mixed steps, greedy tokens as the
// reference backend gives them in fp64.
#include <gtest/gtest.h>

#include <algorithm>

#include "lorica/kernels/ascend/ascend_sim_backend.h"
#include "lorica/kernels/open_backend.h"
#include "lorica/model/test_world.h"

namespace lorica::model {
namespace {

using testing::Job;
using testing::World;

std::vector<Job> MixedJobs(size_t vocab) {
  std::vector<Job> jobs;
  const int32_t lengths[] = {3, 17, 1, 33, 8, 5};
  for (int32_t i = 0; i < 6; ++i) {
    Job job;
    job.slot = {i % 5 - 1};
    for (int32_t t = 0; t < lengths[i]; ++t) {
      job.tokens.push_back(static_cast<int32_t>((t * 37 + i * 11 + t * t) % vocab));
    }
    job.generate = 8;
    jobs.push_back(std::move(job));
  }
  return jobs;
}

// Largest distance of two logits of one row, and the lead of the best over the second.
void Compare(const std::vector<float>& a, const std::vector<float>& b, float* distance,
             float* lead) {
  std::vector<float> sorted = a;
  std::nth_element(sorted.begin(), sorted.begin() + 1, sorted.end(), std::greater<>());
  *lead = sorted[0] - sorted[1];
  *distance = 0;
  for (size_t i = 0; i < a.size(); ++i) *distance = std::max(*distance, std::fabs(a[i] - b[i]));
}

TEST(AscendSim, TinyModelsGiveTheReferencesTokens) {
  for (const char* family : {"llama", "qwen3"}) {
    SCOPED_TRACE(family);
    World reference(family, kernels::OpenReferenceBackend(kernels::Sums::kF64), 1);
    auto opened = ascend::AscendSimBackend::Open({});
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    ascend::AscendSimBackend* backend = opened->get();
    World sim(family, std::move(opened).value(), 2);
    ASSERT_TRUE(reference.loaded() && sim.loaded());
    std::vector<Job> want = MixedJobs(static_cast<size_t>(sim.model().config().vocab));
    std::vector<Job> got = want;
    const testing::DriveOptions options{.max_rows = 48, .chunk = 20, .keep_logits = true};
    reference.Run(&want, options);
    sim.Run(&got, options);
    float worst = 0;
    int32_t compared = 0;
    for (size_t j = 0; j < want.size(); ++j) {
      const size_t prompt = want[j].tokens.size() - static_cast<size_t>(want[j].generate);
      for (size_t i = 0; i < want[j].logits.size(); ++i) {
        float distance = 0;
        float lead = 0;
        Compare(want[j].logits[i], got[j].logits[i], &distance, &lead);
        worst = std::max(worst, distance);
        if (i + 1 < prompt) continue;
        if (i + 1 >= want[j].tokens.size()) break;
        // Two logits each within `distance` may change places.
        if (lead <= 2 * distance) break;
        ASSERT_EQ(want[j].tokens[i + 1], got[j].tokens[i + 1]) << "job " << j << ", token " << i;
        ++compared;
      }
    }
    EXPECT_LT(worst, 0.02f);
    EXPECT_GE(compared, 40);
    EXPECT_GT(backend->counters().lora_launches, 0);
    std::printf("%s: worst logit difference %.2g, %d tokens, %lld base and %lld LoRA launches\n",
                family, worst, compared, static_cast<long long>(backend->counters().base_launches),
                static_cast<long long>(backend->counters().lora_launches));
  }
}

TEST(AscendSim, UnknownChipIsRefusedWithTheList) {
  const auto opened = ascend::AscendSimBackend::Open({.soc = "910Z"});
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.status().message().find("910B3"), std::string::npos)
      << opened.status().message();
}

}  // namespace
}  // namespace lorica::model
