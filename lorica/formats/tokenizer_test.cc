#include "lorica/formats/tokenizer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "lorica/formats/utf8.h"

namespace lorica::formats {
namespace {

std::shared_ptr<const Tokenizer> Load(const std::string& family) {
  auto tokenizer = LoadTokenizerFolder("tests/fixtures/tokenizers/" + family);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return *std::move(tokenizer);
}

TEST(TokenizerTest, BadUtf8IsRefused) {
  const auto tokenizer = Load("qwen2");
  const auto ids = tokenizer->Encode("ab\xFF");
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().ToString(),
            "INVALID_ARGUMENT: the text is not UTF-8: byte 2 begins no character");
}

TEST(TokenizerTest, SpecialTextCanBePlainText) {
  const auto tokenizer = Load("qwen2");
  const auto id = tokenizer->TokenId("<|im_end|>");
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(*tokenizer->Encode("<|im_end|>"), std::vector<int32_t>{*id});
  const auto plain = tokenizer->Encode("<|im_end|>", {.parse_special = false});
  ASSERT_TRUE(plain.ok());
  EXPECT_GT(plain->size(), 1u);
  EXPECT_EQ(tokenizer->Decode(*plain), "<|im_end|>");
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{*id}), "");
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{*id}, {.skip_special = false}), "<|im_end|>");
}

TEST(TokenizerTest, UnknownIdsHaveNoText) {
  const auto tokenizer = Load("qwen2");
  EXPECT_EQ(tokenizer->TokenBytes(-1), "");
  EXPECT_EQ(tokenizer->TokenBytes(tokenizer->vocab_size()), "");
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{-5, 1 << 30}), "");
  EXPECT_FALSE(tokenizer->IsSpecial(-1));
}

TEST(TokenizerTest, DecodeInvertsEncode) {
  // NFC is not undone, and gpt2 puts a space in front: the others give back every text.
  for (const char* family : {"llama3", "smollm2", "nemo"}) {
    const auto tokenizer = Load(family);
    EXPECT_TRUE(rc::check("the text comes back, whole and streamed", [&] {
      std::string text;
      for (const uint32_t c : *rc::gen::container<std::vector<uint32_t>>(rc::gen::oneOf(
               rc::gen::inRange<uint32_t>(0, 0x300), rc::gen::inRange<uint32_t>(0, 0x110000)))) {
        if (c < 0xD800 || c > 0xDFFF) AppendUtf8(c, &text);
      }
      const auto ids = tokenizer->Encode(text, {.add_special_tokens = false});
      ASSERT_TRUE(ids.ok());
      EXPECT_EQ(tokenizer->Decode(*ids, {.skip_special = false}), text);
      Utf8Stream stream;
      std::string streamed;
      for (const int32_t id : *ids) streamed += stream.Push(tokenizer->TokenBytes(id));
      EXPECT_EQ(streamed + stream.Flush(), text);
    }));
  }
}

TEST(TokenizerTest, LongTextsOfEveryShapeAreQuick) {
  std::vector<std::string> texts(6);
  for (int i = 0; i < (1 << 18); ++i) {
    texts[0] += 'a';
    texts[1] += ' ';
    texts[2] += '\n';
    texts[3] += '7';
    texts[4] += "<|im_end|>"[i % 10];
  }
  for (int i = 0; i < (1 << 16); ++i) texts[5] += "\u0301\u0316";
  for (const char* family : {"llama3", "qwen2", "smollm2", "nemo", "gpt2"}) {
    const auto tokenizer = Load(family);
    for (const std::string& text : texts) {
      const auto start = std::chrono::steady_clock::now();
      const auto ids = tokenizer->Encode(text);
      EXPECT_TRUE(ids.ok()) << family << ": " << ids.status().ToString();
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30))
          << family << ": " << text.substr(0, 8);
    }
  }
}

TEST(TokenizerTest, ThreadsShareOne) {
  const auto tokenizer = Load("llama3");
  const std::string text = "The legion closed its ranks, 1984. 罗马\n\n we'll see";
  const auto expected = *tokenizer->Encode(text);
  std::vector<int> differing(4);
  std::vector<std::thread> threads;
  for (int& count : differing) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) count += *tokenizer->Encode(text) != expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(differing, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace lorica::formats
