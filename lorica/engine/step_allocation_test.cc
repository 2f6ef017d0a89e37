// A step allocates when a request is admitted and for the event that it hands over, and else
// nothing: no thread of it waits for the allocator.
#include <gtest/gtest.h>

#include "lorica/base/allocation_count.h"
#include "lorica/base/counting_new.inc"
#include "lorica/engine/test_engine.h"

namespace lorica::engine {
namespace {

using testing::RandomPrompt;
using testing::TestEngine;
using testing::TestModel;
using testing::TestOptions;

TEST(StepAllocation, DecodingAllocatesNothingButItsEvents) {
  const TestModel model(model::ComputeType::kBfloat16);
  for (const int threads : {1, 2}) {
    TestOptions options;
    options.threads = threads;
    options.kv_dtype = DType::kBF16;
    TestEngine engine(model, options);
    constexpr int32_t kRequests = 6;
    int64_t events = 0;
    const char* const adapters[] = {"", "a", "b", "c", "d", "b"};
    for (int32_t i = 0; i < kRequests; ++i) {
      Request request;
      request.prompt = RandomPrompt(static_cast<uint64_t>(i), 20 + i);
      request.adapter = adapters[i];
      request.sampling.temperature = i % 2 == 0 ? 0.0 : 0.8;
      request.sampling.seed = 5;
      request.sampling.ignore_eos = true;
      request.sampling.max_tokens = 100;
      const auto id = engine.engine().Submit(
          std::move(request), [&](Event event) { events += event.tokens.empty() ? 0 : 1; });
      ASSERT_TRUE(id.ok()) << id.status().ToString();
    }
    // All decode, and have met what they need once.
    while (events < 20 * kRequests) engine.engine().Step();
    // As long as pages are crossed.
    for (int step = 0; step < 60; ++step) {
      const int64_t before = AllocationCountOfAllThreads();
      events = 0;
      engine.engine().Step();
      EXPECT_EQ(events, kRequests);
      // Of an event its list of tokens alone.
      EXPECT_EQ(AllocationCountOfAllThreads() - before, events)
          << "step " << step << ", threads " << threads;
    }
  }
}

}  // namespace
}  // namespace lorica::engine
