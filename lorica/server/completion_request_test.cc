#include "lorica/server/completion_request.h"

#include <gtest/gtest.h>

#include <string>

namespace lorica::server {
namespace {

CompletionRequest MustParse(const std::string& body, const GenerationDefaults& defaults = {}) {
  ApiResult<CompletionRequest> result = ParseCompletionRequest(body, defaults);
  if (const auto* error = std::get_if<ApiError>(&result)) ADD_FAILURE() << error->message;
  return std::get<CompletionRequest>(std::move(result));
}

ApiError MustFail(const std::string& body) {
  ApiResult<CompletionRequest> result = ParseCompletionRequest(body, {});
  if (std::holds_alternative<CompletionRequest>(result)) {
    ADD_FAILURE() << "accepted: " << body;
    return {};
  }
  return std::get<ApiError>(result);
}

TEST(CompletionRequest, ReadsEveryField) {
  const CompletionRequest request = MustParse(R"({
    "model": "pirate", "prompt": "Ahoy", "max_tokens": 9, "min_tokens": 2, "temperature": 0.5,
    "top_p": 0.9, "top_k": 40, "min_p": 0.05, "n": 3, "stream": true,
    "stream_options": {"include_usage": true}, "logprobs": 2, "echo": true, "stop": ["a", "b"],
    "presence_penalty": 0.1, "frequency_penalty": -0.2, "repetition_penalty": 1.1,
    "logit_bias": {"7": -100}, "seed": -1, "ignore_eos": true, "stop_token_ids": [5],
    "include_stop_str_in_output": true, "return_token_ids": true, "add_special_tokens": false,
    "user": "u", "suffix": null, "best_of": 3})");
  EXPECT_EQ(request.model, "pirate");
  ASSERT_EQ(request.prompts.size(), 1u);
  EXPECT_EQ(std::get<std::string>(request.prompts[0]), "Ahoy");
  EXPECT_EQ(request.n, 3);
  EXPECT_TRUE(request.stream && request.include_usage && request.return_token_ids);
  EXPECT_FALSE(request.add_special_tokens);
  const engine::SamplingParams& s = request.sampling;
  EXPECT_EQ(s.max_tokens, 9);
  EXPECT_EQ(s.min_tokens, 2);
  EXPECT_EQ(s.temperature, 0.5);
  EXPECT_EQ(s.top_k, 40);
  EXPECT_EQ(s.logprobs, 2);
  EXPECT_EQ(s.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(s.logit_bias.at(7), -100.0);
  EXPECT_EQ(s.seed, static_cast<uint64_t>(-1));
  EXPECT_EQ(s.stop_token_ids, std::vector<int32_t>{5});
  EXPECT_TRUE(s.ignore_eos && s.echo && s.include_stop);
}

TEST(CompletionRequest, TakesPromptsInEveryForm) {
  EXPECT_EQ(MustParse(R"({"model":"m","prompt":["a","b"]})").prompts.size(), 2u);
  EXPECT_EQ(MustParse(R"({"model":"m","prompt":[[1,2],[3]]})").prompts.size(), 2u);
  const CompletionRequest ids = MustParse(R"({"model":"m","prompt":[1,2]})");
  ASSERT_EQ(ids.prompts.size(), 1u);
  EXPECT_EQ(std::get<std::vector<int32_t>>(ids.prompts[0]), (std::vector<int32_t>{1, 2}));
}

TEST(CompletionRequest, DefaultsComeFromTheModelUnlessTheRequestSays) {
  GenerationDefaults defaults;
  defaults.temperature = 0.2;
  defaults.top_k = 5;
  defaults.eos_token_ids = {9};
  const CompletionRequest plain = MustParse(R"({"model":"m","prompt":"x"})", defaults);
  EXPECT_EQ(plain.sampling.temperature, 0.2);
  EXPECT_EQ(plain.sampling.max_tokens, 16);
  EXPECT_EQ(plain.sampling.stop_token_ids, std::vector<int32_t>{9});
  const CompletionRequest own =
      MustParse(R"({"model":"m","prompt":"x","temperature":1,"ignore_eos":true})", defaults);
  EXPECT_EQ(own.sampling.temperature, 1.0);
  EXPECT_EQ(own.sampling.top_k, 5);
  EXPECT_TRUE(own.sampling.stop_token_ids.empty());
}

TEST(CompletionRequest, BadInputNamesTheField) {
  const struct {
    const char* body;
    const char* param;
    const char* part;
  } cases[] = {
      {R"({"model":"m")", "", "request body"},
      {R"([])", "", "expected a JSON object"},
      {R"({"prompt":"x"})", "model", "\"model\""},
      {R"({"model":"m"})", "prompt", "found nothing"},
      {R"({"model":"m","prompt":[]})", "prompt", "\"prompt\""},
      {R"({"model":"m","prompt":[1,"a"]})", "prompt", "\"prompt\""},
      {R"({"model":"m","prompt":[-1]})", "prompt", "\"prompt\""},
      {R"({"model":"m","prompt":"x","temperature":-1})", "temperature", "from 0 to 100"},
      {R"({"model":"m","prompt":"x","temperature":"hot"})", "temperature", "\"hot\""},
      {R"({"model":"m","prompt":"x","top_p":0})", "top_p", "above 0"},
      {R"({"model":"m","prompt":"x","top_k":-2})", "top_k", "top_k"},
      {R"({"model":"m","prompt":"x","max_tokens":1.5})", "max_tokens", "1.5"},
      {R"({"model":"m","prompt":"x","min_tokens":99})", "min_tokens", "max_tokens"},
      {R"({"model":"m","prompt":"x","n":0})", "n", "\"n\""},
      {R"({"model":"m","prompt":"x","best_of":2})", "best_of", "best_of"},
      {R"({"model":"m","prompt":"x","logprobs":21})", "logprobs", "logprobs"},
      {R"({"model":"m","prompt":"x","logprobs":true})", "logprobs", "true"},
      {R"({"model":"m","prompt":"x","stop":[""]})", "stop", "non-empty"},
      {R"({"model":"m","prompt":"x","stop_token_ids":["a"]})", "stop_token_ids", "token ids"},
      {R"({"model":"m","prompt":"x","logit_bias":{"a":1}})", "logit_bias", "token ids"},
      {R"({"model":"m","prompt":"x","logit_bias":{"1":101}})", "logit_bias", "-100 to 100"},
      {R"({"model":"m","prompt":"x","suffix":"y"})", "suffix", "infilling"},
      {R"({"model":"m","prompt":"x","stream_options":{}})", "stream_options", "stream"},
      {R"({"model":"m","prompt":"x","temprature":1})", "temprature", "not a field"},
      {R"({"model":"m","model":"n","prompt":"x"})", "", "model"},
  };
  for (const auto& c : cases) {
    const ApiError error = MustFail(c.body);
    EXPECT_EQ(error.http_status, 400) << c.body;
    EXPECT_EQ(error.param, c.param) << c.body;
    EXPECT_NE(error.message.find(c.part), std::string::npos) << c.body << ": " << error.message;
  }
}

}  // namespace
}  // namespace lorica::server
