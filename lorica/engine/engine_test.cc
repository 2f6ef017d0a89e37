#include "lorica/engine/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "lorica/engine/test_engine.h"

namespace lorica::engine::testing {
namespace {

const TestModel& Model() {
  static const TestModel* const model = new TestModel();
  return *model;
}

Request Prompt(uint64_t seed, int32_t size, const std::string& adapter = "") {
  Request request;
  request.prompt = RandomPrompt(seed, size);
  request.adapter = adapter;
  request.sampling.temperature = 0.0;
  return request;
}

TEST(Engine, AnswersAndGivesEverythingBack) {
  TestEngine engine(Model(), {});
  const Answer answer = engine.Run({Prompt(1, 40, "b")})[0];
  EXPECT_EQ(answer.tokens.size(), 16u);
  EXPECT_EQ(answer.finish, FinishReason::kLength);
  EXPECT_TRUE(answer.prompt.empty());
  EXPECT_FALSE(answer.tokens[0].logprob.has_value());
  const MetricValues metrics = engine.metrics();
  EXPECT_EQ(metrics.prompt_tokens, 40);
  EXPECT_EQ(metrics.generated_tokens, 16);
  EXPECT_EQ(metrics.steps, 16);
  EXPECT_EQ(metrics.rows, 55);
  EXPECT_EQ(metrics.adapter_rows, 55);
  EXPECT_EQ(metrics.segments, 16);
  EXPECT_EQ(metrics.first_tokens, 1);
  EXPECT_GT(metrics.first_token_ns, 0);
  EXPECT_GT(metrics.LoraShare(), 0.0);
  EXPECT_LT(metrics.LoraShare(), 1.0);
  EXPECT_EQ(metrics.running + metrics.waiting + metrics.kv_pages_used, 0);
  EXPECT_EQ(engine.engine().registry().Acquire("b")->version().users(), 1);  // this one
}

TEST(Engine, AStepOfTheBaseRunsNoLoraKernel) {
  TestEngine engine(Model(), {});
  engine.Run({Prompt(1, 40), Prompt(2, 7)});
  EXPECT_EQ(engine.context().trace.counter(Zone::kLoraShrink).calls, 0);
  EXPECT_EQ(engine.context().trace.counter(Zone::kLoraExpand).calls, 0);
  EXPECT_EQ(engine.metrics().segments, 0);
  engine.Run({Prompt(1, 40, "b")});
  EXPECT_GT(engine.context().trace.counter(Zone::kLoraShrink).calls, 0);
}

TEST(Engine, RefusesBadRequestsAndServesTheOthers) {
  TestOptions options;
  options.pages = 4;
  TestEngine engine(Model(), options);
  auto submit = [&](Request request) {
    return engine.engine()
        .Submit(std::move(request), [](Event) { ADD_FAILURE() << "an event of a refused request"; })
        .status();
  };
  EXPECT_EQ(submit(Prompt(1, 0)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(submit(Prompt(1, 2000)).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(submit(Prompt(1, 50)).code(), StatusCode::kOutOfRange);  // 65 positions, 64 there
  EXPECT_EQ(submit(Prompt(1, 5, "nobody")).code(), StatusCode::kNotFound);
  engine.engine().registry().Refuse("bad", InvalidArgument("rank 0 in adapter_config.json"));
  const Status refused = submit(Prompt(1, 5, "bad"));
  EXPECT_EQ(refused.code(), StatusCode::kNotFound);
  EXPECT_NE(refused.message().find("rank 0"), std::string::npos) << refused.ToString();
  EXPECT_EQ(engine.Run({Prompt(1, 49)})[0].finish, FinishReason::kLength);
  EXPECT_EQ(engine.metrics().submitted, 1);
}

TEST(Engine, MaxTokensZeroEchoesThePrompt) {
  TestEngine engine(Model(), {});
  Request rated = Prompt(3, 100, "c");
  rated.sampling.max_tokens = 0;
  rated.sampling.echo = true;
  rated.sampling.logprobs = 1;
  Request bare = rated;
  bare.sampling.logprobs.reset();
  Request silent = bare;
  silent.sampling.echo = false;
  Request one = rated;
  one.prompt.resize(1);
  const std::vector<Answer> answers = engine.Run({rated, bare, silent, one});
  for (const Answer& answer : answers) {
    EXPECT_EQ(answer.finish, FinishReason::kLength);
    EXPECT_TRUE(answer.tokens.empty());
  }
  ASSERT_EQ(answers[0].prompt.size(), 100u);
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(answers[0].prompt[i].token, rated.prompt[i]);
    EXPECT_EQ(answers[0].prompt[i].logprob.has_value(), i > 0);
    EXPECT_EQ(answers[0].prompt[i].top.size(), i > 0 ? 1u : 0u);
  }
  ASSERT_EQ(answers[1].prompt.size(), 100u);
  EXPECT_FALSE(answers[1].prompt[5].logprob.has_value());
  EXPECT_TRUE(answers[2].prompt.empty());
  EXPECT_EQ(answers[3].prompt.size(), 1u);
}

TEST(Engine, StopTokensAndMinTokens) {
  TestEngine engine(Model(), {});
  Request request = Prompt(4, 20, "b");
  request.sampling.temperature = 1.0;
  request.sampling.seed = 3;
  const std::vector<int32_t> free = engine.Run({request})[0].ids();
  request.sampling.stop_token_ids = {free[3]};
  const Answer stopped = engine.Run({request})[0];
  EXPECT_EQ(stopped.finish, FinishReason::kStop);
  EXPECT_EQ(stopped.stop_reason, "token_id:" + std::to_string(free[3]));
  const auto first = std::find(free.begin(), free.end(), free[3]);
  EXPECT_EQ(stopped.ids(), (std::vector<int32_t>{free.begin(), first + 1}));
  request.sampling.min_tokens = 10;
  const Answer longer = engine.Run({request})[0];
  EXPECT_GT(longer.tokens.size(), 10u);
  for (size_t i = 0; i < 10; ++i) EXPECT_NE(longer.tokens[i].token, free[3]);
}

TEST(Engine, TextIsWholeAndStopsAreCut) {
  auto tokenizer = formats::LoadTokenizerFolder("tests/fixtures/tiny/llama");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  TestOptions options;
  options.tokenizer = *tokenizer;
  TestEngine engine(Model(), options);
  Request request = Prompt(6, 12, "d");
  request.sampling.temperature = 1.0;
  request.sampling.seed = 21;
  request.sampling.max_tokens = 60;
  request.sampling.ignore_eos = true;
  const Answer free = engine.Run({request})[0];
  EXPECT_EQ(free.text, (*tokenizer)->Decode(free.ids()));
  ASSERT_GT(free.text.size(), 30u);

  // A stop string of plain letters out of the middle of the answer.
  size_t at = 12;
  const auto plain = [](char c) { return c > 0x20 && c < 0x7f; };
  while (!(plain(free.text[at]) && plain(free.text[at + 1]))) ++at;
  const std::string stop = free.text.substr(at, 2);
  request.sampling.stop = {"never in it", stop};
  const Answer cut = engine.Run({request})[0];
  EXPECT_EQ(cut.finish, FinishReason::kStop);
  EXPECT_EQ(cut.stop_reason, stop);
  EXPECT_EQ(cut.text, free.text.substr(0, free.text.find(stop)));
  EXPECT_LT(cut.tokens.size(), free.tokens.size());
  request.sampling.include_stop = true;
  EXPECT_EQ(engine.Run({request})[0].text, cut.text + stop);
}

TEST(Engine, ARequestWithoutASeedIsGivenOne) {
  TestEngine engine(Model(), {});
  Request request = Prompt(5, 10);
  request.sampling.temperature = 1.0;
  const std::vector<Answer> answers = engine.Run({request, request});
  EXPECT_NE(answers[0].ids(), answers[1].ids());
  request.sampling.seed = 8;
  const std::vector<Answer> seeded = engine.Run({request, request});
  EXPECT_EQ(seeded[0].ids(), seeded[1].ids());
}

TEST(Engine, CancelEndsARequestInAnyState) {
  TestOptions options;
  options.max_num_seqs = 1;
  options.max_num_batched_tokens = 16;
  TestEngine engine(Model(), options);
  const size_t running = engine.Submit(Prompt(1, 100));
  const size_t waiting = engine.Submit(Prompt(2, 100, "a"));
  engine.Step();
  const size_t unseen = engine.Submit(Prompt(3, 5));
  for (size_t index : {unseen, waiting, running}) engine.engine().Cancel(engine.id(index));
  engine.engine().Cancel({12345});
  EXPECT_FALSE(engine.Step());
  for (size_t index : {unseen, waiting, running}) {
    EXPECT_EQ(engine.answer(index).finish, FinishReason::kCancelled);
  }
  EXPECT_EQ(engine.metrics().cancelled, 3);
  EXPECT_EQ(engine.metrics().kv_pages_used, 0);
  engine.engine().Cancel(engine.id(running));  // ended: ignored
  EXPECT_FALSE(engine.Step());
}

TEST(Engine, APinnedVersionOutlivesItsName) {
  TestOptions options;
  options.max_num_batched_tokens = 16;
  TestEngine engine(Model(), options);
  const std::string want = Bits(engine.Run({Prompt(1, 60, "a")})[0]);
  const size_t index = engine.Submit(Prompt(1, 60, "a"));
  engine.Step();
  EXPECT_TRUE(engine.engine().registry().Remove("a").ok());
  EXPECT_FALSE(engine.engine().Submit(Prompt(1, 60, "a"), [](Event) {}).ok());
  engine.Publish("a", MakeAdapter(*Model().model, {99, 8, {lora::Projection::kV}}));
  const size_t newer = engine.Submit(Prompt(1, 60, "a"));
  engine.RunUntilIdle();
  EXPECT_EQ(Bits(engine.answer(index)), want);
  EXPECT_NE(Bits(engine.answer(newer)), want);
}

TEST(Engine, RefusesOptionsThatCannotWork) {
  MachineContext context(1);
  EngineOptions options;
  options.max_num_seqs = 0;
  options.kv_bytes = 1 << 20;
  options.adapter_bytes = 1 << 20;
  const auto created = Engine::Create(Model().model.get(), nullptr, options, &context);
  EXPECT_EQ(created.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(created.status().message().find("--max-num-seqs is 0"), std::string::npos);
  options.max_num_seqs = 1;
  options.max_model_len = 5000;
  EXPECT_FALSE(Engine::Create(Model().model.get(), nullptr, options, &context).ok());
  options.max_model_len = 0;
  options.kv_bytes = 10;
  EXPECT_EQ(Engine::Create(Model().model.get(), nullptr, options, &context).status().code(),
            StatusCode::kResourceExhausted);
  options.kv_bytes = 0;  // no more than its sequences can use
  const auto fitted = Engine::Create(Model().model.get(), nullptr, options, &context);
  ASSERT_TRUE(fitted.ok()) << fitted.status().ToString();
  EXPECT_EQ((*fitted)->options().kv_bytes, 64 * KvLayoutOf(TinyConfig(), DType::kF32).PageBytes());
  EXPECT_EQ((*fitted)->options().max_model_len, 1024);
}

// Submit, Cancel and PublishAdapter from three threads while the engine steps on its own; run under
// the thread sanitizer. Answers that end are those of a quiet engine.
TEST(Engine, ManyThreadsTalkToIt) {
  TestOptions options;
  options.threads = 2;
  options.max_num_seqs = 4;
  options.pages = 32;
  TestEngine engine(Model(), options);
  const char* kNames[] = {"", "a", "b", "c", "d"};
  std::vector<std::string> want;
  for (uint64_t i = 0; i < 30; ++i) {
    want.push_back(
        Bits(engine.Run({Prompt(i, static_cast<int32_t>(1 + i * 4), kNames[i % 5])})[0]));
  }

  std::atomic<int> ended{0};
  std::mutex mutex;
  std::vector<Answer> answers(60);  // guarded by mutex
  std::thread loop([&] {
    while (engine.engine().WaitForWork()) {
      engine.engine().Step();
      const Status integrity = engine.engine().CheckIntegrity();
      EXPECT_TRUE(integrity.ok()) << integrity.ToString();
    }
  });
  auto client = [&](size_t base) {
    for (uint64_t i = 0; i < 30; ++i) {
      const auto id = engine.engine().Submit(
          Prompt(i, static_cast<int32_t>(1 + i * 4), kNames[i % 5]), [&, i, base](Event event) {
            const bool last = event.finish != FinishReason::kNone;
            {
              const std::lock_guard lock(mutex);
              answers[base + i].Add(std::move(event));
            }
            if (last) ++ended;
          });
      ASSERT_TRUE(id.ok());
      if (i % 7 == 3) engine.engine().Cancel(*id);
    }
  };
  std::thread first(client, 0);
  std::thread second(client, 30);
  for (uint64_t i = 0; i < 8; ++i) {
    engine.Publish("extra" + std::to_string(i),
                   MakeAdapter(*Model().model, {200 + i, 8, {lora::Projection::kQ}}));
    engine.metrics();
  }
  first.join();
  second.join();
  while (ended < 60) std::this_thread::yield();
  engine.engine().Stop();
  loop.join();
  for (size_t i = 0; i < 60; ++i) {
    if (answers[i].finish == FinishReason::kCancelled) {
      EXPECT_EQ(i % 30 % 7, 3u);
    } else {
      EXPECT_EQ(Bits(answers[i]), want[i % 30]) << i;
    }
  }
  EXPECT_FALSE(engine.engine().Submit(Prompt(1, 5), [](Event) {}).ok());
}

}  // namespace
}  // namespace lorica::engine::testing
