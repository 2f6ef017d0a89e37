#include "lorica/engine/assume_prompts.h"

#include <gtest/gtest.h>

#include "lorica/engine/test_engine.h"

namespace lorica::engine {
namespace {

using testing::RandomPrompt;
using testing::TestEngine;
using testing::TestModel;
using testing::TestOptions;

TEST(AssumePrompts, EverySequenceDecodesFromTheNextStepOn) {
  const TestModel model(model::ComputeType::kBfloat16);
  for (const DType kv_dtype : {DType::kF32, DType::kBF16, DType::kI8}) {
    TestOptions options;
    options.kv_dtype = kv_dtype;
    options.prefix_reuse = false;
    TestEngine engine(model, options);
    constexpr int32_t kRequests = 8;
    const char* const adapters[] = {"", "a", "b", "c", "d"};
    for (int32_t i = 0; i < kRequests; ++i) {
      Request request;
      request.prompt = RandomPrompt(static_cast<uint64_t>(i), 1 + 30 * i);
      request.adapter = adapters[i % 5];
      request.sampling.temperature = 0.0;
      request.sampling.ignore_eos = true;
      request.sampling.max_tokens = 3;
      engine.Submit(std::move(request));
    }
    AssumePromptsComputed(&engine.engine());
    ASSERT_TRUE(engine.engine().CheckIntegrity().ok());
    for (size_t step = 1; step <= 3; ++step) {
      engine.Step();
      for (size_t i = 0; i < kRequests; ++i) {
        EXPECT_EQ(engine.answer(i).tokens.size(), step);
        EXPECT_TRUE(engine.answer(i).status.ok()) << engine.answer(i).status.ToString();
      }
    }
    EXPECT_EQ(engine.metrics().rows, kRequests * 3);
  }
}

}  // namespace
}  // namespace lorica::engine
