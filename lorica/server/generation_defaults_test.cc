#include "lorica/server/generation_defaults.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace lorica::server {
namespace {

Result<GenerationDefaults> Read(const std::string& content) {
  const std::string folder = testing::TempDir() + "generation_defaults_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/generation_config.json") << content;
  return ReadGenerationDefaults(folder);
}

TEST(GenerationDefaults, ReadsWhatChangesAnAnswer) {
  const auto defaults = Read(R"({"temperature": 0.6, "top_p": 0.95, "top_k": 20, "do_sample": true,
      "eos_token_id": [2, 3], "transformers_version": "5", "use_cache": true})");
  ASSERT_TRUE(defaults.ok()) << defaults.status().ToString();
  EXPECT_EQ(defaults->temperature, 0.6);
  EXPECT_EQ(defaults->top_k, 20);
  EXPECT_EQ(defaults->eos_token_ids, (std::vector<int32_t>{2, 3}));
}

TEST(GenerationDefaults, GreedyWhereSamplingIsOff) {
  EXPECT_EQ(Read(R"({"temperature": 0.6, "do_sample": false})")->temperature, 0.0);
}

TEST(GenerationDefaults, NoFileMeansNoDefaults) {
  const auto defaults = ReadGenerationDefaults("/no/such/folder");
  ASSERT_TRUE(defaults.ok());
  EXPECT_FALSE(defaults->temperature.has_value());
}

TEST(GenerationDefaults, RefusesWhatItWouldHaveToIgnore) {
  for (const char* content : {R"({"typical_p": 0.5})", R"({"no_repeat_ngram_size": 3})",
                              R"({"bad_words_ids": [[1]]})", R"({"suppress_tokens": [1]})"}) {
    EXPECT_EQ(Read(content).status().code(), StatusCode::kUnimplemented) << content;
  }
  for (const char* content : {R"({"top_k": "a"})", R"({"eos_token_id": -1})", "[", ""}) {
    EXPECT_EQ(Read(content).status().code(), StatusCode::kInvalidArgument) << content;
  }
}

}  // namespace
}  // namespace lorica::server
