#include <gtest/gtest.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lorica/formats/gguf.h"
#include "lorica/formats/test_gguf.h"
#include "lorica/formats/tokenizer.h"

namespace lorica::formats {
namespace {

using testing::GgufBuilder;
using testing::Raw;
using testing::Text;

// What a test changes; empty means that the key is left out.
struct Spec {
  std::string model = "gpt2";
  std::string pre = "smollm";
  std::vector<std::string> tokens = {"<s>", "</s>",   "1", "a", "b", "ab", "Ġ", "<tool>",
                                     "aba", "[PAD9]", "Ì", "ģ", "e", "Ã",  "©"};
  std::vector<int32_t> types = {3, 3, 1, 1, 1, 1, 1, 4, 1, 5, 1, 1, 1, 1, 1};
  std::vector<std::string> merges = {"a b"};
  std::vector<std::pair<std::string, uint32_t>> ids = {{"bos_token_id", 0}, {"eos_token_id", 1}};
  std::vector<std::pair<std::string, bool>> flags = {};
};

Result<std::shared_ptr<const Tokenizer>> Load(const Spec& spec) {
  GgufBuilder gguf;
  const std::string ggml = "tokenizer.ggml.";
  if (!spec.model.empty()) gguf.Key(ggml + "model", testing::kString, Text(spec.model));
  if (!spec.pre.empty()) gguf.Key(ggml + "pre", testing::kString, Text(spec.pre));
  if (!spec.tokens.empty()) gguf.Strings(ggml + "tokens", spec.tokens);
  if (!spec.merges.empty()) gguf.Strings(ggml + "merges", spec.merges);
  if (!spec.types.empty()) {
    std::string values;
    for (const int32_t type : spec.types) values += Raw(type);
    gguf.Array(ggml + "token_type", testing::kI32, spec.types.size(), values);
  }
  for (const auto& [name, id] : spec.ids) gguf.Key(ggml + name, testing::kU32, Raw(id));
  for (const auto& [name, on] : spec.flags) {
    gguf.Key(ggml + name, testing::kBool, Raw<uint8_t>(on));
  }
  gguf.Key("tokenizer.chat_template", testing::kString, Text("{{ messages }}"));
  const std::string bytes = gguf.Bytes();
  auto file = GgufFile::Parse(std::as_bytes(std::span(bytes)), "test.gguf");
  if (!file.ok()) return file.status();
  return LoadTokenizerGguf(*file);
}

std::vector<int32_t> Encode(const Spec& spec, std::string_view text) {
  const auto tokenizer = Load(spec);
  if (!tokenizer.ok()) {
    ADD_FAILURE() << tokenizer.status().ToString();
    return {};
  }
  return *(*tokenizer)->Encode(text);
}

using Ids = std::vector<int32_t>;

TEST(TokenizerGgufTest, SmollmSplitsDigits) {
  const auto tokenizer = Load({});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  const Tokenizer& t = **tokenizer;
  EXPECT_EQ(*t.Encode("ab 11</s>"), (Ids{5, 6, 2, 2, 1}));
  EXPECT_EQ(*t.Encode("aba"), (Ids{5, 3}));
  EXPECT_EQ(t.bos_id(), 0);
  EXPECT_EQ(t.eos_ids(), Ids{1});
  EXPECT_EQ(t.chat_template(), "{{ messages }}");
  EXPECT_FALSE(t.adds_bos());
  EXPECT_EQ(t.vocab_size(), 15);
  EXPECT_TRUE(t.IsSpecial(0));
  // User-defined tokens are found in the text, and are no special tokens.
  EXPECT_EQ(*t.Encode("a<tool>b"), (Ids{3, 7, 4}));
  EXPECT_FALSE(t.IsSpecial(7));
  // Padding is no token of any text.
  EXPECT_EQ(t.TokenId("[PAD9]"), std::nullopt);
}

TEST(TokenizerGgufTest, Qwen2NormalizesAndLlamaTakesWholeWords) {
  EXPECT_EQ(Encode({.pre = "qwen2"}, "e\u0301"), (Ids{13, 14}));
  EXPECT_EQ(Encode({.pre = "smollm"}, "e\u0301"), (Ids{12, 10, 11}));
  EXPECT_EQ(Encode({.pre = "llama-bpe"}, "aba"), (Ids{0, 8}));
  EXPECT_EQ(Encode({.pre = "llama-bpe", .flags = {{"add_bos_token", false}}}, "aba"), Ids{8});
  EXPECT_EQ(Encode({.flags = {{"add_bos_token", true}, {"add_eos_token", true}}}, "a"),
            (Ids{0, 3, 1}));
}

TEST(TokenizerGgufTest, EndsOfTurnsAreEnds) {
  const auto tokenizer =
      Load({.ids = {{"eos_token_id", 1}, {"eot_token_id", 0}, {"eom_token_id", 1}}});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  EXPECT_EQ((*tokenizer)->eos_ids(), (Ids{1, 0}));
}

TEST(TokenizerGgufTest, RefusalsNameTheKey) {
  const std::pair<Spec, const char*> kCases[] = {
      {{.model = "llama"}, "UNIMPLEMENTED: test.gguf: tokenizer.ggml.model: expected gpt2, found"},
      {{.model = ""}, "INVALID_ARGUMENT: test.gguf: tokenizer.ggml.model is missing"},
      {{.pre = "tekken"}, "UNIMPLEMENTED: test.gguf: tokenizer.ggml.pre: expected smollm"},
      {{.pre = ""}, "INVALID_ARGUMENT: test.gguf: tokenizer.ggml.pre is missing"},
      {{.tokens = {}}, "INVALID_ARGUMENT: test.gguf: tokenizer.ggml.tokens is missing"},
      {{.merges = {}}, "INVALID_ARGUMENT: test.gguf: tokenizer.ggml.merges is missing"},
      {{.types = {1}}, "INVALID_ARGUMENT: test.gguf: tokenizer.ggml.token_type: expected 15"},
      {{.types = Ids(15, 9)}, "INVALID_ARGUMENT: test.gguf: tokenizer.ggml.token_type: token 0"},
      {{.merges = {"ab"}}, "INVALID_ARGUMENT: test.gguf: tokenizer.ggml.merges: entry 0"},
      {{.merges = {"a z"}}, "INVALID_ARGUMENT: test.gguf: merge 0 needs the token \"z\""},
      {{.ids = {{"bos_token_id", 99}}},
       "INVALID_ARGUMENT: test.gguf: tokenizer.ggml.bos_token_id: expected an id below 15"},
      {{.ids = {}, .flags = {{"add_bos_token", true}}},
       "INVALID_ARGUMENT: test.gguf: tokenizer.ggml.bos_token_id is missing"},
  };
  for (const auto& [spec, message] : kCases) {
    const auto tokenizer = Load(spec);
    ASSERT_FALSE(tokenizer.ok()) << message;
    EXPECT_EQ(tokenizer.status().ToString().find(message), 0u) << tokenizer.status().ToString();
  }
}

}  // namespace
}  // namespace lorica::formats
