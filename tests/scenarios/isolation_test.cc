// Promise 1: a request's tokens and log-probabilities are bit for bit the same alone and in any mix
// of tenants, whatever the limits of the step, the threads, the order of arrival and preemption.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "lorica/engine/test_engine.h"

namespace lorica::engine::testing {
namespace {

// 24 requests over the base and four adapters, prompts of 1 to 300 tokens, two with a common
// prefix; greedy, sampled with seeds, with penalties, with echo.
std::vector<Request> MixedRequests() {
  constexpr int32_t kLengths[] = {1,  2,  3,  7,   15,  16,  17,  31,  32,  33,  48,  64,
                                  65, 80, 96, 100, 127, 128, 129, 200, 250, 256, 257, 300};
  const char* kNames[] = {"", "a", "b", "c", "d"};
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 24; ++i) {
    Request request;
    // 7 and 24 are coprime: lengths are in no order.
    request.prompt = RandomPrompt(i, kLengths[i * 7 % 24]);
    request.adapter = kNames[i % 5];
    SamplingParams& s = request.sampling;
    s.max_tokens = static_cast<int32_t>(20 + i * 11 % 64);
    s.temperature = i % 2 == 0 ? 0.0 : 1.0;
    s.seed = 1000 + i;
    s.logprobs = static_cast<int32_t>(i % 4);
    s.echo = i % 3 == 0;
    if (i % 6 == 1) s.top_p = 0.9;
    if (i % 6 == 3) s.top_k = 20;
    if (i % 6 == 5) s.repetition_penalty = 1.1;
    if (i == 9) s.max_tokens = 0;
    requests.push_back(std::move(request));
  }
  // A common prefix under different adapters, and under the same one.
  std::vector<int32_t>& longer = requests[17].prompt;
  std::vector<int32_t>& other = requests[22].prompt;
  longer.insert(longer.begin(), requests[3].prompt.begin(), requests[3].prompt.end());
  other.insert(other.begin(), requests[3].prompt.begin(), requests[3].prompt.end());
  if (longer.size() > 300) longer.resize(300);
  if (other.size() > 300) other.resize(300);
  return requests;
}

std::vector<std::string> AllBits(const std::vector<Answer>& answers) {
  std::vector<std::string> bits;
  for (const Answer& answer : answers) bits.push_back(Bits(answer));
  return bits;
}

void ExpectSame(const std::vector<std::string>& got, const std::vector<std::string>& want,
                const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i], want[i]) << what << ": request " << i;
    if (got[i] != want[i]) return;
  }
}

// Each request in an engine of its own.
std::vector<std::string> Alone(const TestModel& model, const std::vector<Request>& requests,
                               DType kv_dtype = DType::kF32) {
  std::vector<std::string> bits;
  for (const Request& request : requests) {
    TestOptions options;
    options.kv_dtype = kv_dtype;
    options.max_num_batched_tokens = 512;
    TestEngine engine(model, options);
    bits.push_back(Bits(engine.Run({request})[0]));
  }
  return bits;
}

TEST(Isolation, TheSameAloneMixedAndShuffled) {
  const TestModel model;
  const std::vector<Request> requests = MixedRequests();
  const std::vector<std::string> want = Alone(model, requests);
  for (const std::string& bits : want) EXPECT_NE(bits.find("| "), std::string::npos);

  int64_t preemptions = 0;
  for (const int threads : {1, 2, 3}) {
    for (const int32_t seqs : {1, 5, 32}) {
      for (const int32_t tokens : {16, 64, 512}) {
        TestOptions options;
        options.threads = threads;
        options.max_num_seqs = seqs;
        options.max_num_batched_tokens = tokens;
        options.pages = tokens == 512 ? 512 : 24;  // 24: what the longest alone may need
        TestEngine engine(model, options);
        const std::string what = "threads " + std::to_string(threads) + ", seqs " +
                                 std::to_string(seqs) + ", tokens " + std::to_string(tokens);
        std::vector<size_t> order(requests.size());
        std::iota(order.begin(), order.end(), 0);
        Noise noise(static_cast<uint64_t>(threads * 100 + seqs));
        for (size_t i = order.size(); i > 1; --i) {
          std::swap(order[i - 1], order[static_cast<size_t>(noise.Below(static_cast<int>(i)))]);
        }
        std::vector<Request> shuffled;
        for (size_t i : order) shuffled.push_back(requests[i]);
        const std::vector<std::string> got = AllBits(engine.Run(shuffled));
        std::vector<std::string> sorted(got.size());
        for (size_t i = 0; i < order.size(); ++i) sorted[order[i]] = got[i];
        ExpectSame(sorted, want, what);
        const MetricValues metrics = engine.metrics();
        EXPECT_EQ(metrics.finished, 24) << what;
        EXPECT_EQ(metrics.kv_pages_used, 0) << what;
        preemptions += metrics.preemptions;
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(preemptions, 20);  // else the small pools proved nothing
  std::printf("  27 mixes, %d preemptions\n", static_cast<int>(preemptions));
}

// Pages for a third of what runs: sequences are preempted again and again, some of them in the
// middle of a prompt whose log-probabilities were asked for.
TEST(Isolation, PreemptionChangesNothing) {
  const TestModel model;
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 12; ++i) {
    const bool grows = i < 8;  // else the prompt is long
    Request request;
    request.prompt = RandomPrompt(900 + i, grows ? 20 : 230);
    request.adapter = i % 3 == 0 ? "" : i % 3 == 1 ? "b" : "d";
    request.sampling.max_tokens = grows ? 150 : 20;
    request.sampling.seed = i;
    request.sampling.logprobs = 1;
    request.sampling.echo = true;
    request.sampling.frequency_penalty = 0.5;
    requests.push_back(std::move(request));
  }
  const std::vector<std::string> want = Alone(model, requests);
  int64_t preemptions = 0;
  for (const int32_t tokens : {7, 16, 40}) {
    for (const int32_t pages : {17, 40, 60}) {
      TestOptions options;
      options.max_num_batched_tokens = tokens;
      options.pages = pages;
      TestEngine engine(model, options);
      const std::string what =
          "tokens " + std::to_string(tokens) + ", pages " + std::to_string(pages);
      ExpectSame(AllBits(engine.Run(requests)), want, what);
      preemptions += engine.metrics().preemptions;
      EXPECT_EQ(engine.metrics().prompt_tokens, 8 * 20 + 4 * 230);
    }
  }
  EXPECT_GT(preemptions, 50);
  std::printf("  9 pools, %d preemptions\n", static_cast<int>(preemptions));
}

TEST(Isolation, EveryTypeAndInstructionSet) {
  const std::vector<Request> requests = MixedRequests();
  for (const std::string_view isa : kernels::RunnableIsas()) {
    for (const auto& [type, weights, kv] :
         {std::tuple(model::ComputeType::kFloat32, model::WeightType::kAuto, DType::kF16),
          std::tuple(model::ComputeType::kBfloat16, model::WeightType::kAuto, DType::kBF16),
          std::tuple(model::ComputeType::kBfloat16, model::WeightType::kInt8, DType::kI8),
          std::tuple(model::ComputeType::kFloat32, model::WeightType::kQ4, DType::kI8)}) {
      const TestModel model(type, isa, weights);
      const std::vector<std::string> want = Alone(model, requests, kv);
      TestOptions options;
      options.threads = 2;
      options.max_num_seqs = 16;
      options.max_num_batched_tokens = 37;
      options.pages = 40;
      options.kv_dtype = kv;
      TestEngine engine(model, options);
      ExpectSame(AllBits(engine.Run(requests)), want, std::string(isa));
    }
  }
}

// Requests that come and go at random moments, some cancelled: those that end are untouched.
TEST(Isolation, ArrivalsAndCancellationsBetweenSteps) {
  const TestModel model;
  const std::vector<Request> requests = MixedRequests();
  const std::vector<std::string> want = Alone(model, requests);
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    TestOptions options;
    options.max_num_seqs = 6;
    options.max_num_batched_tokens = 24;
    options.pages = 30;
    TestEngine engine(model, options);
    Noise noise(seed);
    std::vector<size_t> index(requests.size());
    std::vector<bool> cancelled(requests.size(), false);
    for (size_t i = 0; i < requests.size(); ++i) {
      index[i] = engine.Submit(requests[i]);
      for (int steps = noise.Below(6); steps > 0; --steps) engine.Step();
      const auto victim = static_cast<size_t>(noise.Below(static_cast<int32_t>(i + 1)));
      if (noise.Below(3) == 0) {
        engine.engine().Cancel(engine.id(index[victim]));
        cancelled[victim] = true;
      }
    }
    engine.RunUntilIdle();
    int ended = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      const Answer& answer = engine.answer(index[i]);
      if (answer.finish == FinishReason::kCancelled) {
        EXPECT_TRUE(cancelled[i]);
        continue;
      }
      ++ended;
      EXPECT_EQ(Bits(answer), want[i]) << "seed " << seed << ", request " << i;
    }
    EXPECT_GT(ended, 8);
    EXPECT_EQ(engine.metrics().kv_pages_used, 0);
  }
}

// Rule (b): a tenant whose finite weights overflow ends alone, and neither its neighbours nor the
// next users of its pages see a changed bit.
TEST(Isolation, ATenantThatOverflowsHarmsNobody) {
  const TestModel model;
  const std::vector<Request> requests = MixedRequests();
  for (const auto kv : {DType::kF32, DType::kBF16, DType::kI8}) {
    const std::vector<std::string> want = Alone(model, requests, kv);
    TestOptions options;
    options.threads = 2;
    options.max_num_seqs = 8;
    options.max_num_batched_tokens = 48;
    options.pages = 26;
    options.kv_dtype = kv;
    TestEngine engine(model, options);
    using lora::Projection;
    engine.Publish(
        "overflow",
        MakeAdapter(
            *model.model,
            {66, 8, {Projection::kQ, Projection::kK, Projection::kV, Projection::kDown}, 1e30f}));
    std::vector<size_t> good;
    std::vector<size_t> bad;
    for (size_t i = 0; i < requests.size(); ++i) {
      Request poison;
      poison.prompt = RandomPrompt(500 + i, static_cast<int32_t>(1 + i * 5));
      poison.adapter = "overflow";
      bad.push_back(engine.Submit(poison));
      good.push_back(engine.Submit(requests[i]));
    }
    engine.RunUntilIdle();
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(Bits(engine.answer(good[i])), want[i]) << "request " << i;
      const Answer& failed = engine.answer(bad[i]);
      EXPECT_EQ(failed.finish, FinishReason::kError);
      EXPECT_NE(failed.status.message().find("adapter 'overflow'"), std::string::npos)
          << failed.status.ToString();
      EXPECT_TRUE(failed.tokens.empty());
    }
    EXPECT_EQ(engine.metrics().failed, 24);
    EXPECT_EQ(engine.metrics().finished, 24);
    if (HasFailure()) return;
  }
}

// The log-probability of a generated token is the one that its row has inside a prompt: decode,
// chunks and echo are one computation.
TEST(Isolation, EchoRatesAnAnswerAsItWasGenerated) {
  const TestModel model;
  TestOptions options;
  options.max_num_batched_tokens = 16;
  TestEngine engine(model, options);
  for (const char* name : {"", "b"}) {
    Request first;
    first.prompt = RandomPrompt(77, 45);
    first.adapter = name;
    first.sampling.max_tokens = 30;
    first.sampling.seed = 5;
    first.sampling.logprobs = 2;
    const Answer generated = engine.Run({first})[0];
    Request second = first;
    for (int32_t token : generated.ids()) second.prompt.push_back(token);
    second.sampling.max_tokens = 0;
    second.sampling.echo = true;
    const Answer echoed = engine.Run({second})[0];
    ASSERT_EQ(echoed.prompt.size(), 75u);
    EXPECT_FALSE(echoed.prompt[0].logprob.has_value());
    EXPECT_EQ(Bits({echoed.prompt.begin() + 45, echoed.prompt.end()}), Bits(generated.tokens));
  }
}

// What the test above could not see if adapters did nothing.
TEST(Isolation, EveryAdapterAnswersDifferently) {
  const TestModel model;
  TestEngine engine(model, {});
  std::vector<Request> requests;
  for (const char* name : {"", "a", "b", "c", "d"}) {
    Request request;
    request.prompt = RandomPrompt(1, 20);
    request.adapter = name;
    request.sampling.temperature = 0.0;
    request.sampling.logprobs = 1;
    requests.push_back(request);
  }
  std::vector<std::string> bits = AllBits(engine.Run(requests));
  std::sort(bits.begin(), bits.end());
  EXPECT_EQ(std::unique(bits.begin(), bits.end()), bits.end());
  EXPECT_EQ(engine.metrics().max_segments, 4);
}

}  // namespace
}  // namespace lorica::engine::testing
