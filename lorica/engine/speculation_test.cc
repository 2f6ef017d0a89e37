// Guesses change no bit: a request's tokens, log-probabilities, text and end are those of an engine
// that does not speculate, whatever it asks for and whoever shares its steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "lorica/engine/test_engine.h"
// Behind gtest.
#include <rapidcheck/gtest.h>

namespace lorica::engine::testing {
namespace {

const TestModel& Model() {
  static const TestModel* const model = new TestModel();
  return *model;
}

std::shared_ptr<const formats::Tokenizer> Tokenizer() {
  static const auto tokenizer = formats::LoadTokenizerFolder("tests/fixtures/tiny/llama").value();
  return tokenizer;
}

// Text in which guesses are plenty: a few tokens again and again, between noise.
std::vector<int32_t> RepetitivePrompt(uint64_t seed, int32_t size) {
  const std::vector<int32_t> phrase = RandomPrompt(seed, 7);
  std::vector<int32_t> prompt = RandomPrompt(seed + 1, size);
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (i / 21 % 2 == 0) prompt[i] = phrase[i % phrase.size()];
  }
  return prompt;
}

// Bias that leaves a handful of tokens, so that short runs of them come again, and sampled text is
// guessed right at times and wrong at times.
void LeaveFewTokens(uint64_t seed, SamplingParams* sampling) {
  Noise noise(seed);
  for (int i = 0; i < 4; ++i) sampling->logit_bias[noise.Below(TinyConfig().vocab)] = 14.0;
}

// One request of every kind that a guess could disturb.
std::vector<Request> Requests(uint64_t seed) {
  const char* kNames[] = {"", "a", "b", "c", "d"};
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 20; ++i) {
    Request request;
    request.prompt = RepetitivePrompt(seed * 100 + i / 2, static_cast<int32_t>(3 + i * 5));
    request.adapter = kNames[i * 3 % 5];
    SamplingParams& s = request.sampling;
    s.max_tokens = static_cast<int32_t>(1 + i * 13 % 70);
    s.ignore_eos = i % 4 != 3;
    s.temperature = i % 3 == 0 ? 0.0 : 0.6;
    s.seed = seed + i;
    s.logprobs = static_cast<int32_t>(i % 3);
    s.echo = i % 5 == 0;
    if (i % 2 == 0) LeaveFewTokens(seed + i, &s);
    if (i % 7 == 2) s.frequency_penalty = 0.1;
    if (i % 7 == 4) s.repetition_penalty = 1.02;
    if (i % 7 == 6) s.presence_penalty = -0.3;
    if (i % 6 == 1) s.top_p = 0.8;
    if (i % 6 == 4) s.min_tokens = s.max_tokens / 2;
    if (i % 8 == 6) s.stop = {"ab", "e"};
    if (i % 4 == 2 && !s.logit_bias.empty()) {
      // It comes often, and would end the answer; min_tokens may forbid it for a while.
      s.stop_token_ids = {s.logit_bias.begin()->first};
      s.min_tokens = s.max_tokens / 3;
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

struct Outcome {
  std::vector<std::string> bits;
  MetricValues metrics;
};

Outcome RunAll(const TestModel& model, TestOptions options, const std::vector<Request>& requests) {
  options.tokenizer = Tokenizer();
  TestEngine engine(model, options);
  Outcome run;
  for (const Answer& answer : engine.Run(requests)) run.bits.push_back(Bits(answer));
  run.metrics = engine.metrics();
  return run;
}

TestOptions Speculating(TestOptions options = {}) {
  options.speculation = Speculation::kNgram;
  return options;
}

void ExpectSame(const std::vector<std::string>& got, const std::vector<std::string>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(got[i], want[i]) << "request " << i;
}

struct Limits {
  int threads;
  int32_t seqs;
  int32_t tokens;
  int32_t pages;  // the longest request alone needs 11
};

TEST(Speculation, ChangesNoBit) {
  int64_t right = 0;
  int64_t wrong = 0;
  int64_t preemptions = 0;
  for (const uint64_t seed : {1, 2}) {
    const std::vector<Request> requests = Requests(seed);
    const Outcome want = RunAll(Model(), {}, requests);
    EXPECT_EQ(want.metrics.drafted_tokens, 0);
    for (const Limits& limits : {Limits{1, 4, 5, 11}, Limits{3, 20, 33, 12},
                                 Limits{1, 20, 512, 512}, Limits{2, 8, 512, 16}}) {
      TestOptions options = Speculating();
      options.threads = limits.threads;
      options.max_num_seqs = limits.seqs;
      options.max_num_batched_tokens = limits.tokens;
      options.pages = limits.pages;
      const Outcome got = RunAll(Model(), options, requests);
      ExpectSame(got.bits, want.bits);
      if (HasFatalFailure()) return;
      EXPECT_EQ(got.metrics.generated_tokens, want.metrics.generated_tokens);
      EXPECT_EQ(got.metrics.kv_pages_used, 0);
      right += got.metrics.accepted_tokens;
      wrong += got.metrics.drafted_tokens - got.metrics.accepted_tokens;
      preemptions += got.metrics.preemptions;
    }
  }
  // Else it showed nothing.
  EXPECT_GT(right, 500);
  EXPECT_GT(wrong, 150);
  EXPECT_GT(preemptions, 3);
  std::printf("  %d guesses right, %d wrong, %d preemptions\n", static_cast<int>(right),
              static_cast<int>(wrong), static_cast<int>(preemptions));
}

TEST(Speculation, ChangesNoBitInAnyTypeAndInstructionSet) {
  std::vector<Request> requests = Requests(3);
  requests.resize(9);
  for (const std::string_view isa : kernels::RunnableIsas()) {
    for (const auto type : {model::ComputeType::kFloat32, model::ComputeType::kBfloat16}) {
      const TestModel model(type, isa);
      TestOptions options;
      options.threads = 2;
      options.max_num_batched_tokens = 40;
      options.kv_dtype = type == model::ComputeType::kBfloat16 ? DType::kBF16 : DType::kF16;
      const Outcome want = RunAll(model, options, requests);
      const Outcome got = RunAll(model, Speculating(options), requests);
      ExpectSame(got.bits, want.bits);
      EXPECT_GT(got.metrics.accepted_tokens, 20) << isa;
      if (HasFatalFailure()) return;
    }
  }
}

// The pages of an answer that was guessed in part are found and read by those who come after: what
// was guessed wrong must not be in them, under any key.
TEST(Speculation, WrongGuessesAreNeverShared) {
  int64_t reused = 0;
  int64_t wrong = 0;
  TestEngine speculating(Model(), Speculating());
  for (uint64_t i = 0; i < 30; ++i) {
    Request first;
    first.prompt = RepetitivePrompt(700 + i, static_cast<int32_t>(20 + i));
    first.adapter = i % 2 == 0 ? "" : "b";
    first.sampling.max_tokens = 70;
    first.sampling.temperature = 0.7;
    first.sampling.seed = i;
    first.sampling.logprobs = 1;
    LeaveFewTokens(i, &first.sampling);
    const Answer answer = speculating.Run({first})[0];
    Request second = first;
    for (int32_t token : answer.ids()) second.prompt.push_back(token);
    second.sampling.seed = 99;
    TestOptions alone;
    alone.prefix_reuse = false;
    TestEngine plain(Model(), alone);
    ASSERT_EQ(Bits(speculating.Run({second})[0]), Bits(plain.Run({second})[0])) << i;
  }
  const MetricValues metrics = speculating.metrics();
  reused = metrics.reused_tokens;
  wrong = metrics.drafted_tokens - metrics.accepted_tokens;
  EXPECT_GT(reused, 30 * 60);
  EXPECT_GT(wrong, 100);
}

// Any request, in any mix of two: the same as without.
TEST(Speculation, ChangesNoBitOfAnyRequest) {
  const char* kNames[] = {"", "a", "b", "c", "d"};
  EXPECT_TRUE(rc::check([&] {
    std::vector<Request> requests(2);
    for (Request& request : requests) {
      request.prompt =
          RepetitivePrompt(*rc::gen::inRange<uint64_t>(0, 50), *rc::gen::inRange(1, 60));
      request.adapter = kNames[*rc::gen::inRange(0, 5)];
      SamplingParams& s = request.sampling;
      s.max_tokens = *rc::gen::inRange(0, 40);
      s.min_tokens = *rc::gen::inRange(0, s.max_tokens + 1);
      s.temperature = *rc::gen::element(0.0, 0.5, 1.0);
      s.top_k = *rc::gen::element(0, 3);
      s.seed = *rc::gen::inRange<uint64_t>(0, 100);
      s.presence_penalty = *rc::gen::element(0.0, 0.2, -1.0);
      s.frequency_penalty = *rc::gen::element(0.0, 0.2, -0.5);
      s.repetition_penalty = *rc::gen::element(1.0, 1.1, 0.9);
      s.ignore_eos = *rc::gen::arbitrary<bool>();
      s.echo = *rc::gen::arbitrary<bool>();
      if (*rc::gen::arbitrary<bool>()) s.logprobs = 2;
      if (*rc::gen::arbitrary<bool>()) LeaveFewTokens(*rc::gen::inRange<uint64_t>(0, 9), &s);
      if (!s.logit_bias.empty() && *rc::gen::arbitrary<bool>()) {
        s.stop_token_ids = {s.logit_bias.begin()->first};
      }
      s.stop = *rc::gen::element(std::vector<std::string>{}, std::vector<std::string>{"a", "th"});
    }
    TestOptions options;
    options.max_num_batched_tokens = *rc::gen::inRange(1, 40);
    options.pages = *rc::gen::inRange(7, 14);
    const Outcome want = RunAll(Model(), options, requests);
    const Outcome got = RunAll(Model(), Speculating(options), requests);
    RC_ASSERT(got.bits == want.bits);
  }));
}

// Rows that follow a wrong guess may hold anything, an overflow too, and nobody hears of it; one
// that follows right guesses ends the request as it would have without.
TEST(Speculation, AnOverflowEndsItsRequestAlone) {
  for (const Speculation speculation : {Speculation::kOff, Speculation::kNgram}) {
    TestOptions options;
    options.speculation = speculation;
    TestEngine engine(Model(), options);
    using lora::Projection;
    engine.Publish("overflow", MakeAdapter(*Model().model, {66, 8, {Projection::kDown}, 1e30f}));
    Request bad;
    bad.prompt = RepetitivePrompt(1, 60);
    bad.adapter = "overflow";
    Request good;
    good.prompt = RepetitivePrompt(2, 60);
    good.sampling.temperature = 0.0;
    const std::vector<Answer> answers = engine.Run({bad, good});
    EXPECT_EQ(answers[0].finish, FinishReason::kError);
    EXPECT_EQ(answers[1].finish, FinishReason::kLength);
  }
}

TEST(Speculation, FewerStepsWhereTextRepeats) {
  Request request;
  request.prompt = RepetitivePrompt(5, 100);
  request.sampling.max_tokens = 200;
  request.sampling.temperature = 0.0;
  request.sampling.ignore_eos = true;
  request.sampling.logit_bias = {{3, 100.0}};  // one token for ever
  const Outcome want = RunAll(Model(), {}, {request});
  const Outcome got = RunAll(Model(), Speculating(), {request});
  ExpectSame(got.bits, want.bits);
  EXPECT_LT(got.metrics.steps * 4, want.metrics.steps);
  EXPECT_EQ(got.metrics.generated_tokens, 200);
}

}  // namespace
}  // namespace lorica::engine::testing
