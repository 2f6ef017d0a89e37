#include "lorica/formats/peft_pattern.h"

#include <gtest/gtest.h>

#include <string>

namespace lorica::formats {
namespace {

constexpr const char* kPath = "model.layers.10.self_attn.q_proj";

bool Hits(const std::string& key, const std::string& path) {
  const auto pattern = PeftPattern::Compile(key);
  EXPECT_TRUE(pattern.ok()) << pattern.status().ToString();
  const auto hit = pattern->Matches(path);
  EXPECT_TRUE(hit.ok()) << hit.status().ToString();
  return hit.ok() && *hit;
}

TEST(PeftPattern, MatchesLikePeft) {
  struct Row {
    const char* key;
    const char* path;
    bool hit;
  };
  // Every expectation is what re.match(r"(.*\.)?(KEY)$", path) of Python 3.11 answers.
  const Row rows[] = {
      {"q_proj", kPath, true},
      {"proj", kPath, false},
      {"layers.1", kPath, false},
      {"0.self_attn.q_proj", kPath, false},
      {"10.self_attn.q_proj", kPath, true},
      {"layers.10.self_attn.q_proj", kPath, true},
      {"layersx10.self_attn.q_proj", kPath, false},
      {"self_attn.q_proj", "model.layers.0.self_attnxq_proj", true},
      {"^model.layers.10.self_attn.q_proj", kPath, true},
      {"^q_proj", kPath, false},
      {"^q_proj", "q_proj", true},
      {"q_proj|v_proj", kPath, true},
      {"q_proj|v_proj", "model.layers.0.self_attn.v_proj", true},
      {"(q|v)_proj", kPath, true},
      {"[qv]_proj", "model.layers.0.self_attn.k_proj", false},
      {"[^kv]_proj", kPath, true},
      {"[]q]_proj", kPath, true},
      {".*", kPath, true},
      {"model\\.layers\\.(\\d+)\\.self_attn\\.q_proj", kPath, true},
      {"layers\\.(1|2)\\..*", kPath, false},
      {"layers\\.(1|10)\\..*q_proj", kPath, true},
      {".*?attn.q_proj", kPath, true},
      {"(?!k_)\\w+_proj", kPath, true},
      {"(?!q_)\\w+_proj", kPath, false},
      {"self_attn(?=\\.)\\.q_proj", kPath, true},
      {"(?:self_attn|mlp)\\.q_proj", kPath, true},
      {"(?P<which>q)_proj", kPath, true},
      {"\\bq_proj\\b", kPath, true},
      {"q_proj$", kPath, true},
      {"q_proj\\Z", kPath, true},
      {"q{1}_proj", kPath, true},
      {"q{,2}_proj", kPath, true},
      {"q{,}_proj", kPath, true},
      {"q{2,}_proj", kPath, false},
      {"q{}_proj", kPath, false},
      {"q{}_proj", "a.q{}_proj", true},
      {"q_proj)|(k_proj", kPath, true},
      {"(?i:Q)_proj|q_proj", nullptr, false},
      {"", "model.", true},
      {"", kPath, false},
      {"\xc3\xa9?q_proj", kPath, true},
  };
  for (const Row& row : rows) {
    if (row.path == nullptr) {
      EXPECT_FALSE(PeftPattern::Compile(row.key).ok()) << row.key;
      continue;
    }
    EXPECT_EQ(Hits(row.key, row.path), row.hit) << row.key << " on " << row.path;
  }
}

TEST(PeftPattern, RefusesWhatItDoesNotRead) {
  const char* const keys[] = {
      "(q)\\3",      "(?<=x)q", "(?<!x)q",  "(?i)q", "(?P=n)", "(?(1)a|b)", "(?>a)",  "(*ACCEPT)",
      "[[:alpha:]]", "q[",      "(q",       "\\Kq",  "\\Qq",   "q\\",       "\\p{L}", "*q",
      "\\0",         "[\\Z]",   "\xff\xfe", "(?R)",  "(?&a)",  "q)"};
  for (const char* key : keys) {
    const auto pattern = PeftPattern::Compile(key);
    ASSERT_FALSE(pattern.ok()) << key;
    EXPECT_NE(pattern.status().message().find("pattern key"), std::string::npos) << key;
  }
  const auto long_key = PeftPattern::Compile(std::string(2000, 'q'));
  ASSERT_FALSE(long_key.ok());
  EXPECT_EQ(long_key.status().code(), StatusCode::kOutOfRange);
  EXPECT_LT(long_key.status().message().size(), 200u);
}

TEST(PeftPattern, StopsARunawayMatch) {
  const auto pattern = PeftPattern::Compile("((a+)+)+b");
  ASSERT_TRUE(pattern.ok());
  const auto hit = pattern->Matches(std::string(40, 'a') + "ba");
  ASSERT_FALSE(hit.ok());
  EXPECT_EQ(hit.status().code(), StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace lorica::formats
