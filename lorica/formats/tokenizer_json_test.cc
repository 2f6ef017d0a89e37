#include "lorica/formats/tokenizer_json.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace lorica::formats {
namespace {

namespace json = boost::json;

constexpr std::string_view kFixtures = "tests/fixtures/tokenizers/";

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::vector<int32_t> Ids(const json::value& list) {
  std::vector<int32_t> ids;
  for (const json::value& id : list.as_array()) ids.push_back(static_cast<int32_t>(id.as_int64()));
  return ids;
}

// Files and expected ids by the reference: tools/tokenizer_oracle.py --fixtures.
class FamilyTest : public testing::TestWithParam<const char*> {};

TEST_P(FamilyTest, IdsAndTextAreThoseOfTheReference) {
  const std::string folder = std::string(kFixtures) + GetParam();
  const auto tokenizer = LoadTokenizerFolder(folder);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  const json::value cases = json::parse(ReadAll(folder + "/expected.json"));
  ASSERT_GT(cases.as_array().size(), 50u);
  for (const json::value& c : cases.as_array()) {
    const std::string text(c.at("text").as_string());
    const auto ids = (*tokenizer)->Encode(text);
    ASSERT_TRUE(ids.ok()) << ids.status().ToString();
    EXPECT_EQ(*ids, Ids(c.at("ids"))) << text;
    const auto plain = (*tokenizer)->Encode(text, {.add_special_tokens = false});
    ASSERT_TRUE(plain.ok());
    EXPECT_EQ(*plain, Ids(c.at("plain"))) << text;
    EXPECT_EQ((*tokenizer)->Decode(*ids, {.skip_special = false}),
              std::string(c.at("decoded").as_string()));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyTest,
                         testing::Values("llama3", "qwen2", "smollm2", "nemo", "gpt2"));

// A tokenizer of three letters, as a value that a test can change.
json::value Small() {
  return json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 5, "content": "<s>", "single_word": false, "lstrip": false,
                      "rstrip": false, "normalized": false, "special": true},
                     {"id": 6, "content": "</s>", "single_word": false, "lstrip": false,
                      "rstrip": false, "normalized": false, "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                      "use_regex": true},
    "post_processor": null,
    "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true},
    "model": {"type": "BPE", "dropout": null, "unk_token": null,
              "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
              "byte_fallback": false, "vocab": {"a": 0, "b": 1, "ab": 2, "c": 3, "Ġ": 4},
              "merges": ["a b"]}})");
}

Result<std::shared_ptr<const Tokenizer>> Parse(const json::value& file,
                                               const TokenizerConfig& config = {}) {
  return ParseTokenizerJson(json::serialize(file), config);
}

std::string Refusal(const json::value& file, const TokenizerConfig& config = {}) {
  const auto tokenizer = Parse(file, config);
  return tokenizer.ok() ? "OK" : tokenizer.status().ToString();
}

TEST(TokenizerJsonTest, SmallFile) {
  const auto tokenizer = Parse(Small());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  const Tokenizer& t = **tokenizer;
  EXPECT_EQ(*t.Encode("ab c<s>"), (std::vector<int32_t>{2, 4, 3, 5}));
  EXPECT_EQ(t.vocab_size(), 7);
  EXPECT_EQ(t.TokenId("<s>"), 5);
  EXPECT_EQ(t.TokenId(" "), 4);
  EXPECT_EQ(t.TokenId("x"), std::nullopt);
  EXPECT_TRUE(t.IsSpecial(5));
  EXPECT_FALSE(t.IsSpecial(0));
  EXPECT_FALSE(t.bos_id().has_value());
}

struct Change {
  const char* pointer;  // a JSON pointer to an object's field
  const char* value;
  const char* message;
};

void Set(json::value* root, const std::string& pointer, const char* value) {
  const size_t slash = pointer.rfind('/');
  json::value* parent = slash == 0 ? root : &root->at_pointer(pointer.substr(0, slash));
  parent->as_object()[pointer.substr(slash + 1)] = json::parse(value);
}

TEST(TokenizerJsonTest, WhatIsNotServedIsNamed) {
  const Change kChanges[] = {
      {"/version", "\"2.0\"", "\"version\": expected \"1.0\", found \"2.0\""},
      {"/normalizer", R"({"type": "Prepend", "prepend": "_"})",
       "\"normalizer\": the type \"Prepend\" is not served"},
      {"/normalizer", R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "NFD"}]})",
       "\"normalizer\"[1]: the type \"NFD\" is not served"},
      {"/pre_tokenizer", R"({"type": "Metaspace", "replacement": "_"})",
       "\"pre_tokenizer\": the type \"Metaspace\" is not served"},
      {"/pre_tokenizer", "null", "\"pre_tokenizer\": one without \"ByteLevel\" is not served"},
      {"/pre_tokenizer/surprise", "1",
       "\"pre_tokenizer\": the field \"surprise\" of \"ByteLevel\" is not served"},
      {"/pre_tokenizer",
       R"({"type": "Split", "pattern": {"String": "x"}, "behavior": "Odd", "invert": false})",
       "\"pre_tokenizer\": the behavior \"Odd\" is not served"},
      {"/pre_tokenizer", R"({"type": "Sequence", "pretokenizers": [
           {"type": "ByteLevel", "add_prefix_space": false}, {"type": "Digits",
            "individual_digits": true}]})",
       "\"pre_tokenizer\"[1]: \"Digits\" after \"ByteLevel\" is not served"},
      {"/post_processor", R"({"type": "BertProcessing"})",
       "\"post_processor\": the type \"BertProcessing\" is not served"},
      {"/decoder", R"({"type": "Sequence", "decoders": [{"type": "Fuse"}]})",
       "\"decoder\"[0]: the type \"Fuse\" is not served"},
      {"/model/type", "\"Unigram\"", "\"model\": the type \"Unigram\" is not served"},
      {"/model/byte_fallback", "true", "\"model\": \"byte_fallback\" is not served"},
      {"/model/dropout", "0.1", "\"model\": \"dropout\" is not served"},
      {"/model/end_of_word_suffix", "\"</w>\"", "\"model\": \"end_of_word_suffix\" is not served"},
      {"/model/new_option", "true", "\"model\": the field \"new_option\" of \"BPE\" is not served"},
  };
  for (const Change& change : kChanges) {
    json::value file = Small();
    Set(&file, change.pointer, change.value);
    const std::string refusal = Refusal(file);
    EXPECT_EQ(refusal.substr(0, 13), "UNIMPLEMENTED") << refusal;
    EXPECT_NE(refusal.find(change.message), std::string::npos) << refusal;
  }
}

TEST(TokenizerJsonTest, ContradictionsAreNamed) {
  const Change kChanges[] = {
      {"/model/merges", R"(["a"])", "merge 0: expected \"left right\""},
      {"/model/merges", R"([["a", "c"]])", "merge 0 needs the token \"ac\""},
      {"/model/vocab", R"({"a": 0, "b": 0})", "the id 0 belongs to two tokens"},
      {"/model/vocab", R"({"a": 99999999})", "found 99999999"},
      {"/model/vocab", "[]", "\"vocab\""},
      {"/model/unk_token", "\"<u>\"", "unk_token \"<u>\" is not in the vocabulary"},
      {"/added_tokens", R"([{"id": 1, "content": "x"}])", "takes the id of the vocabulary's \"b\""},
      {"/added_tokens", R"([{"id": 9, "content": "b"}])", "is 1 in the vocabulary"},
      {"/pre_tokenizer/add_prefix_space", "null", "add_prefix_space"},
      {"/post_processor", R"({"type": "TemplateProcessing", "special_tokens": {},
           "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}]})",
       "<s>"},
  };
  for (const Change& change : kChanges) {
    json::value file = Small();
    Set(&file, change.pointer, change.value);
    const std::string refusal = Refusal(file);
    EXPECT_EQ(refusal.substr(0, 16), "INVALID_ARGUMENT") << refusal;
    EXPECT_NE(refusal.find(change.message), std::string::npos) << refusal;
  }
  EXPECT_EQ(ParseTokenizerJson("{", {}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ParseTokenizerJson("[]", {}).status().code(), StatusCode::kInvalidArgument);
}

TEST(TokenizerJsonTest, ConfigGivesRolesAndTheTemplate) {
  const auto config = TokenizerConfig::Parse(
      {.tokenizer_config = R"({"bos_token": {"content": "<s>"}, "eos_token": "c",
          "add_bos_token": true, "added_tokens_decoder":
          {"6": {"content": "</s>", "rstrip": true, "special": false}},
          "chat_template": [{"name": "tool", "template": "T"},
                            {"name": "default", "template": "D"}]})",
       .special_tokens_map = R"({"bos_token": "ignored", "pad_token": "</s>"})",
       .chat_template = std::nullopt});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  const auto tokenizer = Parse(Small(), *config);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  const Tokenizer& t = **tokenizer;
  EXPECT_EQ(t.bos_id(), 5);
  EXPECT_EQ(t.eos_ids(), std::vector<int32_t>{3});
  EXPECT_EQ(t.chat_template(), "D");
  EXPECT_TRUE(t.adds_bos());
  EXPECT_TRUE(t.IsSpecial(3));  // it has a role
  EXPECT_TRUE(t.IsSpecial(6));
  EXPECT_EQ(*t.Encode("a</s> \nb"), (std::vector<int32_t>{5, 0, 6, 1}));
  EXPECT_EQ(*t.Encode("a", {.add_special_tokens = false}), std::vector<int32_t>{0});
}

TEST(TokenizerJsonTest, ConfigErrorsAreNamed) {
  const auto message = [](TokenizerConfig::Files files) {
    const auto config = TokenizerConfig::Parse(files);
    return config.ok() ? Refusal(Small(), *config) : config.status().ToString();
  };
  EXPECT_EQ(message({.tokenizer_config = R"({"eos_token": "<eot>"})"}),
            "INVALID_ARGUMENT: tokenizer.json: the eos_token \"<eot>\" is in neither the "
            "vocabulary nor the added tokens");
  EXPECT_NE(message({.tokenizer_config = R"({"added_tokens_decoder": {"x": {}}})"})
                .find("expected a token id as the key, found \"x\""),
            std::string::npos);
  EXPECT_NE(message({.tokenizer_config = R"({"added_tokens_decoder": {"5": {"content": "q"}}})"})
                .find("the added token 5 is \"<s>\" here and \"q\" in tokenizer_config.json"),
            std::string::npos);
  EXPECT_EQ(message({.chat_template = "\xFF"}),
            "INVALID_ARGUMENT: chat_template.jinja is not UTF-8");
  EXPECT_NE(message({.tokenizer_config = "nonsense"}).find("tokenizer_config.json"),
            std::string::npos);
}

TEST(TokenizerJsonTest, AMissingFolderIsNamed) {
  const auto tokenizer = LoadTokenizerFolder("/nowhere/at/all");
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().code(), StatusCode::kNotFound);
  EXPECT_NE(tokenizer.status().message().find("/nowhere/at/all/tokenizer.json"), std::string::npos);
}

}  // namespace
}  // namespace lorica::formats
