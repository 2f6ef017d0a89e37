#include "lorica/engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>

#include "lorica/engine/logprobs.h"
#include "lorica/engine/philox.h"
// Behind gtest.
#include <rapidcheck/gtest.h>

namespace lorica::engine {
namespace {

kernels::RowStats StatsOf(const std::vector<float>& logits) {
  kernels::RowStats stats;
  const auto best = std::max_element(logits.begin(), logits.end());
  stats.max = *best;
  stats.argmax = static_cast<int32_t>(best - logits.begin());
  for (float logit : logits) {
    stats.sum_exp += std::exp(static_cast<double>(logit) - static_cast<double>(stats.max));
  }
  return stats;
}

struct Case {
  std::vector<float> logits;
  SamplingParams params;
  std::vector<int32_t> prompt;
  std::vector<int32_t> output;
  std::vector<int32_t> forbidden;
};

int32_t Draw(const Case& c, uint64_t seed, int64_t position, SamplerScratch* scratch) {
  const kernels::RowStats stats = StatsOf(c.logits);
  TokenCounts counts(c.params, c.prompt);
  // The last two tokens of the output as guesses that are not counted yet.
  const size_t counted = c.output.size() - std::min<size_t>(2, c.output.size());
  for (size_t i = 0; i < counted; ++i) counts.AddOutput(c.output[i]);
  const std::span guessed = std::span(c.output).subspan(counted);
  return SampleToken({c.logits, &stats, &c.params, &counts, c.forbidden, seed, position, guessed},
                     scratch);
}

// The probability of each token, straight from the definitions: full sorts, fresh sums.
std::vector<double> Oracle(const Case& c) {
  const SamplingParams& p = c.params;
  const size_t n = c.logits.size();
  std::vector<double> logit(c.logits.begin(), c.logits.end());
  for (int32_t t : c.forbidden) logit[t] = -INFINITY;
  for (const auto& [t, bias] : p.logit_bias) logit[t] += bias;
  for (size_t t = 0; t < n; ++t) {
    const auto id = static_cast<int32_t>(t);
    const auto times = std::count(c.output.begin(), c.output.end(), id);
    const bool seen = times > 0 || std::count(c.prompt.begin(), c.prompt.end(), id) > 0;
    if (seen)
      logit[t] = logit[t] > 0 ? logit[t] / p.repetition_penalty : logit[t] * p.repetition_penalty;
    logit[t] -= p.frequency_penalty * static_cast<double>(times);
    if (times > 0) logit[t] -= p.presence_penalty;
  }
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logit[a] > logit[b]; });
  std::vector<double> prob(n, 0.0);
  if (p.temperature == 0.0) {
    prob[order[0]] = 1.0;
    return prob;
  }
  auto softmax = [&](const std::vector<bool>& keep) {
    double sum = 0.0;
    for (size_t t = 0; t < n; ++t) {
      prob[t] = keep[t] ? std::exp((logit[t] - logit[order[0]]) / p.temperature) : 0.0;
      sum += prob[t];
    }
    for (double& x : prob) x /= sum;
  };
  std::vector<bool> keep(n, true);
  softmax(keep);
  for (size_t t = 0; t < n; ++t) keep[t] = prob[t] >= p.min_p * prob[order[0]];
  if (p.top_k > 0) {
    for (size_t i = static_cast<size_t>(p.top_k); i < n; ++i) keep[order[i]] = false;
  }
  softmax(keep);
  if (p.top_p < 1.0) {
    double sum = 0.0;
    bool enough = false;
    for (size_t i = 0; i < n; ++i) {
      if (enough) keep[order[i]] = false;
      sum += prob[order[i]];
      enough = enough || sum >= p.top_p;
    }
    softmax(keep);
  }
  return prob;
}

// Draws follow the oracle's distribution: each token within five standard deviations and two draws.
void ExpectDistribution(const Case& c) {
  const std::vector<double> want = Oracle(c);
  constexpr int kDraws = 20000;
  std::vector<int> got(c.logits.size(), 0);
  SamplerScratch scratch;
  for (int i = 0; i < kDraws; ++i) ++got[static_cast<size_t>(Draw(c, 1234, i, &scratch))];
  for (size_t t = 0; t < want.size(); ++t) {
    const double mean = want[t] * kDraws;
    EXPECT_NEAR(got[t], mean, 5.0 * std::sqrt(mean * (1.0 - want[t])) + 2.0) << "token " << t;
  }
}

Case Base() { return {{2.0f, -1.0f, 0.5f, 3.0f, 0.5f, -4.0f, 1.5f, 2.5f}, {}, {}, {}, {}}; }

TEST(Philox, KnownAnswers) {
  // From the authors' own table (kat_vectors, philox4x32 10).
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, DrawsAreUniformAndDependOnSeedAndPosition) {
  double sum = 0.0;
  double squares = 0.0;
  for (int i = 0; i < 10000; ++i) {
    const double u = UniformDraw(7, i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.015);
  EXPECT_NEAR(squares / 10000, 1.0 / 3.0, 0.015);
  EXPECT_EQ(UniformDraw(7, 3), UniformDraw(7, 3));
  EXPECT_NE(UniformDraw(7, 3), UniformDraw(7, 4));
  EXPECT_NE(UniformDraw(7, 3), UniformDraw(8, 3));
  EXPECT_NE(UniformDraw(7, 3), UniformDraw(7 + (uint64_t{1} << 40), 3));
}

TEST(Sampler, GreedyTakesTheLowestOfEquals) {
  Case c{{1.0f, 5.0f, 5.0f, 2.0f}, {}, {}, {}, {}};
  c.params.temperature = 0.0;
  SamplerScratch scratch;
  EXPECT_EQ(Draw(c, 0, 0, &scratch), 1);
  c.params.logit_bias = {{3, 3.0}};  // through the processors
  EXPECT_EQ(Draw(c, 0, 0, &scratch), 1);
  c.forbidden = {1};
  EXPECT_EQ(Draw(c, 0, 0, &scratch), 2);
  c.forbidden = {1, 2};
  EXPECT_EQ(Draw(c, 0, 0, &scratch), 3);
}

TEST(Sampler, DrawIsAFunctionOfSeedAndPosition) {
  const Case c = Base();
  SamplerScratch scratch;
  std::vector<int32_t> first;
  for (int i = 0; i < 50; ++i) first.push_back(Draw(c, 99, i, &scratch));
  EXPECT_GT(std::count(first.begin(), first.end(), 3), 5);
  EXPECT_LT(std::count(first.begin(), first.end(), 3), 45);  // it moves with the position
  SamplerScratch fresh;
  for (int i = 49; i >= 0; --i) EXPECT_EQ(Draw(c, 99, i, &fresh), first[i]);
}

TEST(Sampler, Distributions) {
  Case c = Base();
  ExpectDistribution(c);
  c.params.temperature = 0.5;
  ExpectDistribution(c);
  c.params.temperature = 2.0;
  c.params.top_k = 3;
  ExpectDistribution(c);
  c.params.top_k = 0;
  c.params.top_p = 0.8;
  ExpectDistribution(c);
  c.params.top_p = 1.0;
  c.params.min_p = 0.2;
  ExpectDistribution(c);
  c.params.top_k = 4;
  c.params.top_p = 0.9;
  ExpectDistribution(c);
  c = Base();
  c.params.presence_penalty = 1.0;
  c.params.frequency_penalty = 0.5;
  c.params.repetition_penalty = 1.3;
  c.prompt = {0, 1};
  c.output = {3, 3, 7, 1};
  c.params.logit_bias = {{5, 4.0}, {2, -100.0}};
  ExpectDistribution(c);
}

TEST(Sampler, TopKWithEqualLogitsKeepsTheLowerIds) {
  Case c{{1.0f, 1.0f, 1.0f, 1.0f, 0.0f}, {}, {}, {}, {}};
  c.params.top_k = 2;
  SamplerScratch scratch;
  for (int i = 0; i < 200; ++i) EXPECT_LE(Draw(c, 5, i, &scratch), 1);
}

// Every draw lies where the cumulated probabilities of the oracle say, for random parameters on a
// vocabulary large enough for the sorted pieces to matter.
TEST(Sampler, AgreesWithTheOracleOnLargeRows) {
  EXPECT_TRUE(rc::check([] {
    std::mt19937 random(*rc::gen::inRange(0, 1000000));
    Case c;
    c.logits.resize(static_cast<size_t>(*rc::gen::inRange(1, 3000)));
    const bool coarse = *rc::gen::inRange(0, 2) == 1;  // many ties
    std::normal_distribution<float> normal(0.0f, 3.0f);
    for (float& x : c.logits) x = coarse ? std::round(normal(random)) : normal(random);
    const auto n = static_cast<int32_t>(c.logits.size());
    c.params.temperature = *rc::gen::element(0.0, 0.3, 1.0, 4.0);
    c.params.top_k = *rc::gen::element(0, 1, 5, 400);
    c.params.top_k = std::min(c.params.top_k, n);
    c.params.top_p = *rc::gen::element(1.0, 0.01, 0.5, 0.97);
    c.params.min_p = *rc::gen::element(0.0, 0.05);
    c.params.repetition_penalty = *rc::gen::element(1.0, 1.2);
    c.params.frequency_penalty = *rc::gen::element(0.0, -0.3);
    for (int i = 0; i < 20; ++i) c.prompt.push_back(static_cast<int32_t>(random() % n));
    for (int i = 0; i < 20; ++i) c.output.push_back(static_cast<int32_t>(random() % n));
    if (n > 1) c.forbidden = {static_cast<int32_t>(random() % n)};
    const std::vector<double> want = Oracle(c);
    SamplerScratch scratch;
    for (int i = 0; i < 20; ++i) {
      const int32_t token = Draw(c, 42, i, &scratch);
      RC_ASSERT(want[static_cast<size_t>(token)] > 0.0);
      if (c.params.temperature == 0.0) continue;
      // In id order where nothing was sorted, else best first.
      std::vector<size_t> order(c.logits.size());
      std::iota(order.begin(), order.end(), 0);
      if (c.params.top_k > 0 || c.params.top_p < 1.0) {
        // Equal probabilities are equal logits, so a stable sort keeps the lower ids first.
        std::stable_sort(order.begin(), order.end(),
                         [&](size_t a, size_t b) { return want[a] > want[b]; });
      }
      double below = 0.0;
      for (size_t t : order) {
        if (static_cast<int32_t>(t) == token) break;
        below += want[t];
      }
      const double u = UniformDraw(42, i);
      RC_ASSERT(below <= u + 1e-9);
      RC_ASSERT(u <= below + want[static_cast<size_t>(token)] + 1e-9);
    }
  }));
}

TEST(Sampler, ExtremeParametersStaySane) {
  Case c = Base();
  SamplerScratch scratch;
  c.params.temperature = 1e-300;
  EXPECT_EQ(Draw(c, 1, 1, &scratch), 3);
  c.params.temperature = 1e300;
  c.params.top_p = 1e-300;
  EXPECT_EQ(Draw(c, 1, 1, &scratch), 3);
  c = Base();
  c.params.min_p = 1.0;
  EXPECT_EQ(Draw(c, 1, 1, &scratch), 3);
  c = Base();
  c.forbidden = {0, 1, 2, 3, 4, 5, 6, 7};  // nothing is left: still a token
  EXPECT_EQ(Draw(c, 1, 1, &scratch), 0);
}

TEST(Logprobs, AreTheLogSoftmaxOfTheRawRow) {
  const std::vector<float> logits = {1.0f, 3.0f, 3.0f, -2.0f, 0.0f};
  const kernels::RowStats stats = StatsOf(logits);
  double sum = 0.0;
  for (float x : logits) sum += std::exp(static_cast<double>(x));
  const TokenInfo info = MakeTokenInfo(logits, stats, 3, 3);
  EXPECT_EQ(info.token, 3);
  EXPECT_NEAR(info.logprob.value(), -2.0 - std::log(sum), 1e-6);
  ASSERT_EQ(info.top.size(), 3u);
  EXPECT_EQ(info.top[0].token, 1);  // ties to the lower id
  EXPECT_EQ(info.top[1].token, 2);
  EXPECT_EQ(info.top[2].token, 0);
  EXPECT_NEAR(info.top[2].logprob, 1.0 - std::log(sum), 1e-6);
  EXPECT_TRUE(MakeTokenInfo(logits, stats, 3, 0).top.empty());
  EXPECT_EQ(MakeTokenInfo(logits, stats, 3, 100).top.size(), 5u);
}

TEST(Logprobs, TopAgreesWithASort) {
  EXPECT_TRUE(rc::check([] {
    const auto steps = *rc::gen::nonEmpty<std::vector<int8_t>>();
    std::vector<float> logits(steps.begin(), steps.end());
    const int32_t top = *rc::gen::inRange(1, 30);
    const TokenInfo info = MakeTokenInfo(logits, StatsOf(logits), 0, top);
    std::vector<int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
    RC_ASSERT(info.top.size() == std::min<size_t>(static_cast<size_t>(top), logits.size()));
    for (size_t i = 0; i < info.top.size(); ++i) RC_ASSERT(info.top[i].token == order[i]);
  }));
}

}  // namespace
}  // namespace lorica::engine
