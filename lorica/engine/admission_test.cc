#include "lorica/engine/admission.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <functional>

namespace lorica::engine {
namespace {

Request Good() {
  Request request;
  request.prompt = {1, 2, 3};
  return request;
}

TEST(Admission, EachRefusalSaysWhatAndWhy) {
  RequestLimits limits;
  limits.vocab = 100;
  limits.max_model_len = 256;
  limits.kv_pages = 8;
  limits.has_tokenizer = false;
  EXPECT_TRUE(CheckRequest(Good(), limits).ok());
  struct Row {
    std::function<void(Request*)> spoil;
    StatusCode code;
    std::string part;
  };
  const auto kBad = StatusCode::kInvalidArgument;
  const Row kRows[] = {
      {[](Request* r) { r->prompt.clear(); }, kBad, "the prompt has no tokens"},
      {[](Request* r) { r->prompt[1] = 100; }, kBad, "entry 1 of the prompt is token 100"},
      {[](Request* r) { r->prompt[2] = -1; }, kBad, "entry 2 of the prompt is token -1"},
      {[](Request* r) { r->prompt.assign(257, 1); }, StatusCode::kOutOfRange,
       "the prompt has 257 tokens, more than the context of 256"},
      {[](Request* r) { r->sampling.max_tokens = 254; }, StatusCode::kOutOfRange,
       "the prompt has 3 tokens and max_tokens is 254, together more than the context of 256"},
      {[](Request* r) { r->sampling.max_tokens = 2147483647; }, StatusCode::kOutOfRange,
       "together more than the context"},
      {[](Request* r) { r->sampling.max_tokens = 127; }, StatusCode::kOutOfRange,
       "may need 9 K/V pages (3 prompt tokens and max_tokens 127), and the engine has 8"},
      {[](Request* r) { r->sampling.max_tokens = -1; }, kBad, "max_tokens is -1"},
      {[](Request* r) { r->sampling.min_tokens = 17; }, kBad, "min_tokens is 17"},
      {[](Request* r) { r->sampling.temperature = -0.1; }, kBad, "temperature is -0.1"},
      {[](Request* r) { r->sampling.temperature = NAN; }, kBad, "temperature is nan"},
      {[](Request* r) { r->sampling.top_k = -1; }, kBad, "top_k is -1"},
      {[](Request* r) { r->sampling.top_p = 0.0; }, kBad, "top_p is 0"},
      {[](Request* r) { r->sampling.top_p = 1.5; }, kBad, "top_p is 1.5"},
      {[](Request* r) { r->sampling.min_p = NAN; }, kBad, "min_p is nan"},
      {[](Request* r) { r->sampling.presence_penalty = 3; }, kBad, "presence_penalty is 3"},
      {[](Request* r) { r->sampling.frequency_penalty = -3; }, kBad, "frequency_penalty is -3"},
      {[](Request* r) { r->sampling.repetition_penalty = 0; }, kBad, "repetition_penalty is 0"},
      {[](Request* r) { r->sampling.repetition_penalty = INFINITY; }, kBad,
       "repetition_penalty is inf"},
      {[](Request* r) { r->sampling.logprobs = 1000; }, kBad, "logprobs is 1000"},
      {[](Request* r) {
         r->sampling.logit_bias = {{100, 1.0}};
       },
       kBad, "a key of logit_bias is token 100"},
      {[](Request* r) {
         r->sampling.logit_bias = {{1, NAN}};
       },
       kBad, "a value of logit_bias is nan"},
      {[](Request* r) { r->sampling.stop_token_ids = {-7}; }, kBad,
       "an entry of stop_token_ids is token -7"},
      {[](Request* r) { r->sampling.stop = {""}; }, kBad, "a stop string has 0 bytes"},
      {[](Request* r) { r->sampling.stop = {"x"}; }, kBad, "no tokenizer"},
  };
  for (const Row& row : kRows) {
    Request request = Good();
    row.spoil(&request);
    const Status status = CheckRequest(request, limits);
    EXPECT_EQ(status.code(), row.code) << row.part;
    EXPECT_NE(status.message().find(row.part), std::string::npos) << status.ToString();
    std::printf("  %s\n", status.ToString().c_str());
  }
}

TEST(Admission, TheLastTokenNeedsNoPage) {
  RequestLimits limits;
  limits.vocab = 100;
  limits.max_model_len = 1000;
  limits.kv_pages = 1;
  Request request = Good();
  request.sampling.max_tokens = 14;  // 3 + 13 positions fill the page
  EXPECT_TRUE(CheckRequest(request, limits).ok());
  request.sampling.max_tokens = 15;
  EXPECT_FALSE(CheckRequest(request, limits).ok());
}

}  // namespace
}  // namespace lorica::engine
