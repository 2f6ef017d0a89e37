// Adapters that come and go under a running engine: versions, reuse of K and V, eviction, waiting.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "lorica/engine/test_engine.h"

namespace lorica::engine::testing {
namespace {

const TestModel& Model() {
  static const TestModel* const model = new TestModel();
  return *model;
}

std::shared_ptr<const lora::Adapter> SmallAdapter(uint64_t seed) {
  return MakeAdapter(*Model().model, {seed, 8, {lora::Projection::kQ, lora::Projection::kV}, 0.5f});
}

Request LongPrompt(const std::string& adapter, double weight = 1.0) {
  Request request;
  request.prompt = RandomPrompt(5, 201);
  request.adapter = adapter;
  request.adapter_weight = weight;
  request.sampling.temperature = 0.0;
  request.sampling.max_tokens = 6;
  request.sampling.logprobs = 3;
  return request;
}

class PrefixReuse : public ::testing::Test {
 protected:
  PrefixReuse() : reusing_(Model(), {}), plain_(Model(), Plain()) {}
  static TestOptions Plain() {
    TestOptions options;
    options.prefix_reuse = false;
    return options;
  }
  // Both engines, one request; the answers must be equal to the bit. Returns the tokens reused.
  int64_t Run(const Request& request) {
    const int64_t before = reusing_.metrics().reused_tokens;
    EXPECT_EQ(Bits(reusing_.Run({request})[0]), Bits(plain_.Run({request})[0]));
    EXPECT_EQ(plain_.metrics().reused_tokens, 0);
    return reusing_.metrics().reused_tokens - before;
  }
  void Publish(const std::string& name, uint64_t seed) {
    for (TestEngine* engine : {&reusing_, &plain_}) engine->Publish(name, SmallAdapter(seed));
  }
  TestEngine reusing_;
  TestEngine plain_;
};

// The two sequences in which a peer gives one tenant another's K and V.
TEST_F(PrefixReuse, IsNeverOfAnotherAdapter) {
  EXPECT_EQ(Run(LongPrompt("b")), 0);
  EXPECT_EQ(Run(LongPrompt("")), 0) << "the base after an adapter";
  EXPECT_EQ(Run(LongPrompt("d")), 0) << "an adapter after another";
  EXPECT_EQ(Run(LongPrompt("b")), 192);
  EXPECT_EQ(Run(LongPrompt("")), 192);
  EXPECT_EQ(Run(LongPrompt("d")), 192);
}

TEST_F(PrefixReuse, IsNeverOfAnotherVersionOrWeight) {
  Publish("v", 100);
  EXPECT_EQ(Run(LongPrompt("v")), 0);
  EXPECT_EQ(Run(LongPrompt("v", 0.5)), 0);
  EXPECT_EQ(Run(LongPrompt("v", 0.5)), 192);
  Publish("v", 101);
  EXPECT_EQ(Run(LongPrompt("v")), 0) << "a new version of the name";
  EXPECT_EQ(Run(LongPrompt("v", 0.5)), 0);
  Publish("other name", 101);
  EXPECT_EQ(Run(LongPrompt("other name")), 192) << "the same content by another name";
  Publish("v", 100);
  EXPECT_EQ(Run(LongPrompt("v")), 192) << "and back again";
}

TEST_F(PrefixReuse, ComputesTheLastTokenAndAllThatHasToBeRated) {
  Request whole = LongPrompt("b");
  whole.prompt.resize(192);  // full pages to the end
  EXPECT_EQ(Run(whole), 0);
  EXPECT_EQ(Run(whole), 176);
  Request rated = whole;
  rated.sampling.echo = true;
  EXPECT_EQ(Run(rated), 0);
  rated.sampling.logprobs.reset();
  EXPECT_EQ(Run(rated), 176);
  // An answer's own tokens are a prefix too.
  const std::vector<int32_t> answer = reusing_.Run({whole})[0].ids();
  Request turn = whole;
  turn.prompt.insert(turn.prompt.end(), answer.begin(), answer.end());
  turn.prompt.resize(220, 7);
  EXPECT_EQ(Run(turn), 192);
}

TEST_F(PrefixReuse, SharesPagesThatOthersHold) {
  const std::vector<Request> requests(5, LongPrompt("b"));
  const std::vector<Answer> want = plain_.Run(requests);
  // The first is a step ahead.
  reusing_.Submit(LongPrompt("b"));
  for (int i = 0; i < 4; ++i) reusing_.Step();
  const std::vector<Answer> got = reusing_.Run(requests);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(Bits(got[i]), Bits(want[i]));
  EXPECT_EQ(reusing_.metrics().reused_tokens, 5 * 192);
  EXPECT_EQ(reusing_.metrics().kv_pages_used, 0);
  EXPECT_GT(reusing_.metrics().kv_pages_cached, 0);
}

// Eight clients while the name is replaced: every answer is of one version whole, a client never
// sees an older one after a newer, and nothing is left in the arena.
TEST(LiveAdapters, ReplacedTwoHundredTimesUnderLoad) {
  constexpr int kVersions = 200;
  constexpr int kClients = 8;
  const auto request = [] {
    Request request;
    request.prompt = RandomPrompt(3, 20);
    request.adapter = "name";
    request.sampling.temperature = 0.0;
    request.sampling.max_tokens = 5;
    request.sampling.logprobs = 2;
    return request;
  };
  std::map<std::string, int> version_of;
  {
    TestEngine alone(Model(), {});
    for (int i = 0; i < kVersions; ++i) {
      alone.Publish("name", SmallAdapter(1000 + static_cast<uint64_t>(i)));
      version_of[Bits(alone.Run({request()})[0])] = i;
    }
  }
  ASSERT_EQ(version_of.size(), static_cast<size_t>(kVersions)) << "answers identify versions";

  TestOptions options;
  options.threads = 1;
  TestEngine engine(Model(), options);
  const int64_t start_bytes = engine.engine().adapters().used_bytes();
  std::atomic<bool> over{false};
  std::thread loop([&] {
    while (engine.engine().WaitForWork()) {
      engine.engine().Step();
      const Status integrity = engine.engine().CheckIntegrity();
      EXPECT_TRUE(integrity.ok()) << integrity.ToString();
    }
  });
  engine.Publish("name", SmallAdapter(1000));
  std::atomic<int> wrong{0};
  std::atomic<int> served{0};
  std::mutex mutex;
  std::set<int> seen;
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&] {
      int last = 0;
      while (!over.load()) {
        std::atomic<bool> done{false};
        Answer answer;
        const auto id = engine.engine().Submit(request(), [&](Event event) {
          const bool ends = event.finish != FinishReason::kNone;
          answer.Add(std::move(event));
          if (ends) {
            done.store(true);
            done.notify_all();
          }
        });
        if (!id.ok()) {
          wrong.fetch_add(1);
          return;
        }
        done.wait(false);
        const auto found = version_of.find(Bits(answer));
        if (found == version_of.end() || found->second < last) {
          wrong.fetch_add(1);
        } else {
          last = found->second;
          const std::lock_guard lock(mutex);
          seen.insert(last);
        }
        served.fetch_add(1);
      }
    });
  }
  for (int i = 1; i < kVersions; ++i) {
    const int before = served.load();
    engine.Publish("name", SmallAdapter(1000 + static_cast<uint64_t>(i)));
    while (served.load() < before + 2) std::this_thread::yield();
  }
  over.store(true);
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(engine.engine().registry().Remove("name").ok());
  engine.engine().Stop();
  loop.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_GT(seen.size(), 100u);
  EXPECT_EQ(engine.engine().adapters().used_bytes(), start_bytes);
  std::printf("  %d answers, %zu versions seen\n", served.load(), seen.size());
}

class Crowded : public ::testing::Test {
 protected:
  static constexpr int kAdapters = 6;
  static constexpr int64_t kQuantum = 24;
  Crowded() {
    TestOptions options;
    options.standard_adapters = false;
    options.adapter_quantum = kQuantum;
    options.adapter_bytes = 48 << 10;
    options.max_num_seqs = 16;
    engine_ = std::make_unique<TestEngine>(Model(), options);
    for (int i = 0; i < kAdapters; ++i) {
      engine_->Publish("t" + std::to_string(i), SmallAdapter(500 + static_cast<uint64_t>(i)));
    }
    room_ = static_cast<int>(engine_->engine().tiers().totals().hot);
  }
  static Request Ask(int adapter, int32_t tokens, uint64_t seed = 1) {
    Request request;
    request.prompt = RandomPrompt(seed, 10);
    request.adapter = "t" + std::to_string(adapter);
    request.sampling.temperature = 0.0;
    request.sampling.ignore_eos = true;
    request.sampling.max_tokens = tokens;
    request.sampling.logprobs = 1;
    return request;
  }
  // One step, and whatever there is room to fetch: here, so that waits in steps do not depend on
  // how much processor the loader's thread gets.
  void Step() {
    engine_->Step();
    while (engine_->engine().tiers().FetchNext()) {
    }
  }
  std::unique_ptr<TestEngine> engine_;
  int room_ = 0;
};

TEST_F(Crowded, AnswersAreThoseOfAnEngineWithRoomForAll) {
  ASSERT_GE(room_, 1);
  ASSERT_LE(room_, kAdapters / 2);
  TestOptions options;
  options.standard_adapters = false;
  TestEngine roomy(Model(), options);
  std::vector<Request> requests;
  for (int i = 0; i < kAdapters; ++i) {
    roomy.Publish("t" + std::to_string(i), SmallAdapter(500 + static_cast<uint64_t>(i)));
    for (uint64_t seed = 0; seed < 3; ++seed) requests.push_back(Ask(i, 40, seed));
  }
  const std::vector<Answer> want = roomy.Run(requests);
  const std::vector<Answer> got = engine_->Run(requests);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(Bits(got[i]), Bits(want[i])) << i;
  const lora::AdapterTiers::Totals totals = engine_->engine().tiers().totals();
  EXPECT_GT(totals.evictions, 0);
  EXPECT_EQ(totals.hot, room_);
  EXPECT_GT(engine_->metrics().preemptions, 0) << "some gave way";
}

// Traffic of the hot adapters that never pauses; then one request for another.
TEST_F(Crowded, SteadyTrafficStarvesNobody) {
  std::vector<int> hot;
  for (int i = 0; i < kAdapters; ++i) {
    const auto version = engine_->engine().registry().Acquire("t" + std::to_string(i));
    const auto tier = engine_->engine().tiers().Describe(version->version().adapter()).tier;
    if (tier == lora::AdapterTier::kHot) hot.push_back(i);
  }
  ASSERT_EQ(static_cast<int>(hot.size()), room_);
  std::vector<size_t> traffic;
  for (int adapter : hot) {
    for (uint64_t i = 0; i < 2; ++i) traffic.push_back(engine_->Submit(Ask(adapter, 60, i)));
  }
  const auto keep_busy = [&] {
    for (size_t i = 0; i < traffic.size(); ++i) {
      if (engine_->answer(traffic[i]).finish == FinishReason::kNone) continue;
      traffic[i] = engine_->Submit(Ask(hot[i / 2], 60, i + traffic[i]));
    }
  };
  for (int i = 0; i < 100; ++i, keep_busy()) Step();
  int other = 0;
  while (std::count(hot.begin(), hot.end(), other) > 0) ++other;
  const size_t late = engine_->Submit(Ask(other, 4));
  int steps = 0;
  for (; engine_->answer(late).tokens.empty() && steps < 5000; ++steps, keep_busy()) Step();
  std::printf("  room for %d, first token after %d steps\n", room_, steps);
  // One before it has its quantum already; what is left is the fetch, in the loader's time.
  EXPECT_LT(steps, 200);
  for (const size_t index : traffic) engine_->engine().Cancel(engine_->id(index));
  engine_->RunUntilIdle();
}

TEST_F(Crowded, TwiceAsManyAsThereIsRoomForAreServedInTurn) {
  std::vector<size_t> open(kAdapters);
  std::vector<int> waited(kAdapters, 0);
  std::vector<size_t> tokens(kAdapters, 0);
  int longest = 0;
  int ended = 0;
  for (int i = 0; i < kAdapters; ++i) open[static_cast<size_t>(i)] = engine_->Submit(Ask(i, 50));
  for (int step = 0; step < 4000 && ended < 60; ++step) {
    Step();
    for (size_t i = 0; i < kAdapters; ++i) {
      const Answer& answer = engine_->answer(open[i]);
      if (answer.tokens.size() != tokens[i]) {
        waited[i] = 0;
      } else {
        longest = std::max(longest, ++waited[i]);
      }
      tokens[i] = answer.tokens.size();
      if (answer.finish == FinishReason::kNone) continue;
      EXPECT_EQ(answer.finish, FinishReason::kLength);
      open[i] = engine_->Submit(Ask(static_cast<int>(i), 50, static_cast<uint64_t>(++ended)));
      tokens[i] = 0;
    }
  }
  std::printf("  room for %d of %d, %d ended, longest wait %d steps\n", room_, kAdapters, ended,
              longest);
  EXPECT_EQ(ended, 60);
  // Five before it at most, each for a quantum of one row a step and a fetch.
  EXPECT_LT(longest, 5 * (static_cast<int>(kQuantum) + 100));
  for (const size_t index : open) engine_->engine().Cancel(engine_->id(index));
  engine_->RunUntilIdle();
}

TEST(LiveAdapters, AWeightMultipliesTheScale) {
  TestOptions options;
  options.prefix_reuse = false;
  TestEngine engine(Model(), options);
  const auto spec = [](double scale) {
    return AdapterSpec{77, 8, {lora::Projection::kQ, lora::Projection::kDown}, 0.3f, scale};
  };
  engine.Publish("one", MakeAdapter(*Model().model, spec(2.0)));
  TestEngine other(Model(), options);
  other.Publish("one", MakeAdapter(*Model().model, spec(0.5)));
  const Answer weighted = engine.Run({LongPrompt("one", 0.25)})[0];
  EXPECT_EQ(Bits(weighted), Bits(other.Run({LongPrompt("one")})[0]));
  EXPECT_NE(Bits(weighted), Bits(engine.Run({LongPrompt("one")})[0]));
  // Both in one batch.
  const std::vector<Answer> both = engine.Run({LongPrompt("one"), LongPrompt("one", 0.25)});
  EXPECT_EQ(Bits(both[1]), Bits(weighted));
  Request bad = LongPrompt("", 0.5);
  EXPECT_EQ(engine.engine().Submit(bad, [](Event) {}).status().code(),
            StatusCode::kInvalidArgument);
  bad = LongPrompt("one", std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(engine.engine().Submit(bad, [](Event) {}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(LiveAdapters, OneThatIsLargerThanTheArenaIsRefusedWithBothFigures) {
  TestOptions options;
  options.standard_adapters = false;
  options.adapter_bytes = 48 << 10;
  TestEngine engine(Model(), options);
  const auto giant = MakeAdapter(*Model().model, {1, 512, {lora::Projection::kQ}});
  const Status status = engine.engine().PublishAdapter("giant", giant);
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
  EXPECT_NE(status.message().find(std::to_string(engine.engine().adapters().TileBytes(*giant))),
            std::string::npos);
  EXPECT_FALSE(engine.engine().registry().Contains("giant"));
}

}  // namespace
}  // namespace lorica::engine::testing
