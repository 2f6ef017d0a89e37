#include "lorica/formats/gguf.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdio>
#include <fstream>

#include "lorica/formats/test_gguf.h"

namespace lorica::formats {
namespace {

// The words of the format.
using namespace testing;  // NOLINT(google-build-using-namespace)
using Builder = GgufBuilder;

std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

std::string ErrorOf(const std::string& bytes, const GgufLimits& limits = {}) {
  const Result<GgufFile> file = GgufFile::Parse(AsBytes(bytes), "t", limits);
  return file.ok() ? "no error" : file.status().ToString();
}

void ExpectError(const Builder& builder, std::string_view part, const GgufLimits& limits = {}) {
  const std::string error = ErrorOf(builder.Bytes(), limits);
  EXPECT_NE(error.find(part), std::string::npos) << error << "\nexpected: " << part;
}

TEST(Gguf, ReadsEveryTypeOfMetadata) {
  Builder b;
  b.Key("a.u8", kU8, Raw<uint8_t>(200)).Key("a.i8", kI8, Raw<int8_t>(-5));
  b.Key("a.u16", kU16, Raw<uint16_t>(60000)).Key("a.i16", kI16, Raw<int16_t>(-300));
  b.Key("a.u32", kU32, Raw<uint32_t>(4000000000)).Key("a.i32", kI32, Raw<int32_t>(-7));
  b.Key("a.f32", kF32, Raw(1.5f)).Key("a.f64", kF64, Raw(2.5));
  b.Key("a.u64", kU64, Raw(~uint64_t{0})).Key("a.i64", kI64, Raw<int64_t>(-9));
  b.Key("a.t", kBool, "\1").Key("a.f", kBool, std::string(1, '\0')).Key("a.s", kString, Text("hé"));
  b.Array("l.s", kString, 3, Text("x") + Text("") + Text("yz"));
  b.Array("l.u32", kU32, 2, Raw<uint32_t>(1) + Raw<uint32_t>(2)).Array("l.f32", kF32, 1, Raw(.5f));
  b.Array("l.i32", kI32, 1, Raw<int32_t>(-1)).Array("l.b", kBool, 2, std::string("\0\1", 2));
  b.Array("l.none", kString, 0, "");
  const std::string bytes = b.Bytes();
  const Result<GgufFile> file = GgufFile::Parse(AsBytes(bytes), "t");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(file->metadata().size(), b.key_count);
  EXPECT_EQ(**file->FindInt("a.u8"), 200);
  EXPECT_EQ(**file->FindInt("a.i8"), -5);
  EXPECT_EQ(**file->FindInt("a.u16"), 60000);
  EXPECT_EQ(**file->FindInt("a.i16"), -300);
  EXPECT_EQ(**file->FindU32("a.u32"), 4000000000u);
  EXPECT_EQ(**file->FindInt("a.i32"), -7);
  EXPECT_EQ(**file->FindF32("a.f32"), 1.5f);
  EXPECT_EQ(std::get<double>(*file->Find("a.f64")), 2.5);
  EXPECT_EQ(std::get<uint64_t>(*file->Find("a.u64")), ~uint64_t{0});
  EXPECT_EQ(**file->FindInt("a.i64"), -9);
  EXPECT_EQ(**file->FindBool("a.t"), true);
  EXPECT_EQ(**file->FindBool("a.f"), false);
  EXPECT_EQ(**file->FindString("a.s"), "hé");
  EXPECT_EQ(**file->FindStringArray("l.s"), (std::vector<std::string>{"x", "", "yz"}));
  EXPECT_EQ(**file->FindU32Array("l.u32"), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(**file->FindF32Array("l.f32"), (std::vector<float>{.5f}));
  EXPECT_EQ(**file->FindI32Array("l.i32"), (std::vector<int32_t>{-1}));
  EXPECT_EQ(std::get<std::vector<bool>>(*file->Find("l.b")), (std::vector<bool>{false, true}));
  EXPECT_EQ(**file->FindIntArray("l.i32"), (std::vector<int64_t>{-1}));
  EXPECT_TRUE((*file->FindStringArray("l.none"))->empty());
}

TEST(Gguf, LooksUpByTheDeclaredType) {
  Builder b;
  b.Key("u", kU32, Raw<uint32_t>(1)).Key("big", kU64, Raw(~uint64_t{0}));
  b.Array("bytes", kU8, 1, "x")
      .Array("b", kBool, 1, "\1")
      .Array("big_l", kU64, 1, Raw(~uint64_t{0}));
  const std::string bytes = b.Bytes();
  const Result<GgufFile> file = GgufFile::Parse(AsBytes(bytes), "t");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->FindF32("u").status().ToString(),
            "INVALID_ARGUMENT: t: key \"u\": expected f32, found u32");
  EXPECT_EQ(file->FindF32Array("bytes").status().message(),
            "t: key \"bytes\": expected array of f32, found array of u8");
  EXPECT_EQ(file->FindInt("bytes").status().message(),
            "t: key \"bytes\": expected an integer, found array of u8");
  EXPECT_FALSE(file->FindString("u").ok());
  EXPECT_FALSE(file->FindStringArray("u").ok());
  EXPECT_FALSE(file->FindU32("big").ok());
  EXPECT_FALSE(file->FindBool("u").ok());
  EXPECT_FALSE(file->FindInt("big").ok());
  EXPECT_FALSE(file->FindIntArray("big_l").ok());
  EXPECT_FALSE(file->FindIntArray("b").ok());
  EXPECT_FALSE(file->FindIntArray("u").ok());
  EXPECT_EQ(*file->FindU32("none"), std::nullopt);
  EXPECT_EQ(*file->FindInt("none"), std::nullopt);
  EXPECT_EQ(*file->FindIntArray("none"), std::nullopt);
  EXPECT_EQ(*file->FindStringArray("none"), nullptr);
}

TEST(Gguf, ReadsTensorsRowMajor) {
  for (const uint32_t version : {2u, 3u}) {
    Builder b;
    b.version = version;
    b.Tensor("m", {3, 2}, kTensorI8, 0).Tensor("q", {64, 2}, kTensorQ80, 32);
    b.Tensor("scalar", {}, kTensorF32, 192).Tensor("none", {0, 5}, kTensorF32, 224);
    b.data.resize(196);
    for (size_t i = 0; i < b.data.size(); ++i) b.data[i] = static_cast<char>(i);
    const std::string bytes = b.Bytes() + std::string(28, 'p');
    const Result<GgufFile> file = GgufFile::Parse(AsBytes(bytes), "t");
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    EXPECT_EQ(file->version(), version);
    ASSERT_EQ(file->tensors().size(), 4u);
    EXPECT_EQ(file->tensors()[0].name, "m");
    EXPECT_EQ(file->FindTensor("m")->shape, (Shape{2, 3}));
    EXPECT_EQ(*file->FindTensor("m")->row(1), std::byte{3});
    EXPECT_EQ(file->FindTensor("q")->shape, (Shape{2, 64}));
    EXPECT_EQ(file->FindTensor("q")->bytes(), 2 * 2 * 34);
    EXPECT_EQ(*file->FindTensor("q")->data, std::byte{32});
    EXPECT_EQ(file->FindTensor("scalar")->shape, Shape{});
    EXPECT_EQ(*file->FindTensor("scalar")->data, std::byte{192});
    EXPECT_EQ(file->FindTensor("none")->bytes(), 0);
    EXPECT_EQ(file->FindTensor("nope"), nullptr);
  }
}

TEST(Gguf, ChecksMagicAndVersion) {
  EXPECT_EQ(ErrorOf(""),
            "INVALID_ARGUMENT: t: expected a file that starts with \"GGUF\"; this is no GGUF file");
  Builder b;
  b.magic = "ggla";
  ExpectError(b, "no GGUF file");
  b.magic = "GGUF";
  b.version = 1;
  ExpectError(b, "UNIMPLEMENTED: t: GGUF version 1");
  b.version = 3u << 24;
  ExpectError(b, "UNIMPLEMENTED: t: expected a little-endian GGUF file");
  for (const uint32_t version : {0u, 4u, ~0u}) {
    b.version = version;
    ExpectError(b, "expected GGUF version 2 or 3");
  }
  b.version = 3;
  EXPECT_EQ(ErrorOf(b.Bytes()), "no error");
}

TEST(Gguf, BoundsCountsByTheBytesThere) {
  for (const uint64_t count : {uint64_t{1}, uint64_t{1} << 40, (uint64_t{1} << 63) - 1}) {
    Builder b;
    b.key_count = count;
    ExpectError(b, "DATA_LOSS: t: expected " + std::to_string(count) + " keys");
    std::swap(b.key_count, b.tensor_count);
    ExpectError(b, "DATA_LOSS: t: expected " + std::to_string(count) + " tensors");
  }
  Builder b;
  b.key_count = ~uint64_t{0};
  ExpectError(b, "not negative, found -1");
  std::swap(b.key_count, b.tensor_count);
  ExpectError(b, "not negative, found -1");
  Builder two;
  two.Key("a", kU8, "x").Key("b", kString, Text("12345678"));
  EXPECT_EQ(ErrorOf(two.Bytes(), {.keys = 2}), "no error");
  ExpectError(two, "at most 1 keys, found 2", {.keys = 1});
  ExpectError(two, "a string of at most 7 bytes, found 8", {.string_bytes = 7});
}

TEST(Gguf, ChecksKeys) {
  ExpectError(Builder().Key("", kU16, "xy"), "key of printable ASCII, found \"\"");
  ExpectError(Builder().Key("a\n", kU8, "x"), "found \"a?\"");
  ExpectError(Builder().Key("\xC3\xA9", kU8, "x"), "printable ASCII");
  ExpectError(Builder().Key(std::string("a\0b", 3), kU8, "x"), "printable ASCII");
  ExpectError(Builder().Key(std::string(65536, 'k'), kU8, "x"), "at most 65535 bytes");
  EXPECT_EQ(ErrorOf(Builder().Key(std::string(65535, 'k'), kU8, "x").Bytes()), "no error");
  ExpectError(Builder().Key("a", kU8, "x").Key("a", kU16, "xy"), "key \"a\" occurs twice");
}

TEST(Gguf, ChecksValues) {
  ExpectError(Builder().Key("a", 13, "x"), "key \"a\": expected a value type below 13, found 13");
  ExpectError(Builder().Key("a", kBool, "\2"), "expected a bool of 0 or 1, found 2");
  ExpectError(Builder().Key("a", kU64, "1234"), "DATA_LOSS: t: key \"a\": byte");
  ExpectError(Builder().Key("a", kString, Raw(~uint64_t{0})), "a string of at most 1073741824");
  ExpectError(Builder().Key("a", kString, Raw(uint64_t{5}) + "abcd"), "5 bytes more, found 4");
  ExpectError(Builder().Array("a", kArray, 0, ""), "arrays of arrays are not served");
  ExpectError(Builder().Array("a", 99, 0, ""), "value type below 13");
  ExpectError(Builder().Array("a", kBool, 2, "\1\2"), "bool of 0 or 1");
  ExpectError(Builder().Array("a", kU8, uint64_t{1} << 63, "x"), "array of 9223372036854775808");
  ExpectError(Builder().Array("a", kU64, uint64_t{1} << 61, "x"), "array of 2305843009213693952");
  ExpectError(Builder().Array("a", kF32, 2, "1234567"), "found only 7 bytes");
  ExpectError(Builder().Array("a", kString, 2, Text("1234567")), "found only 15 bytes");
  ExpectError(Builder().Array("a", kU8, 3, "xyz"), "array of at most 2", {.array_elements = 2});
}

TEST(Gguf, ChecksTheAlignment) {
  for (const uint32_t alignment : {8u, 64u, 4096u}) {
    Builder b;
    b.alignment = alignment;
    b.Key("general.alignment", kU32, Raw(alignment));
    b.Tensor("a", {1}, kTensorI8, 0).Tensor("b", {1}, kTensorI8, alignment);
    b.data = "a" + std::string(alignment - 1, '-') + "b";
    const std::string bytes = b.Bytes();
    const Result<GgufFile> file = GgufFile::Parse(AsBytes(bytes), "t");
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    EXPECT_EQ(*file->FindTensor("b")->data, std::byte{'b'});
  }
  for (const uint32_t alignment : {0u, 1u, 4u, 24u, ~0u}) {
    ExpectError(Builder().Key("general.alignment", kU32, Raw(alignment)), "a power of two");
  }
  ExpectError(Builder().Key("general.alignment", kU64, Raw<uint64_t>(32)),
              "expected u32, found u64");
  Builder huge;
  huge.Key("general.alignment", kU32, Raw(1u << 31)).Tensor("a", {1}, kTensorI8, 0);
  huge.data = "a";
  huge.alignment = 32;
  ExpectError(huge, "DATA_LOSS");
}

TEST(Gguf, ChecksTensorFacts) {
  const auto one = [](const std::string& name, const std::vector<int64_t>& ne, uint32_t type) {
    Builder b;
    b.Tensor(name, ne, type, 0).data.resize(4096);
    return b;
  };
  ExpectError(one("", {1}, 0), "tensor name of printable ASCII");
  ExpectError(one("a\x7f", {1}, 0), "tensor name of printable ASCII");
  ExpectError(one(std::string(64, 'n'), {1}, 0), "at most 63 bytes");
  EXPECT_EQ(ErrorOf(one(std::string(63, 'n'), {1, 1, 1, 1}, 0).Bytes()), "no error");
  ExpectError(one("a", {1, 1, 1, 1, 1}, 0), "at most 4 dimensions, found 5");
  ExpectError(one("a", {-1}, 0), "not negative, found -1");
  ExpectError(one("a", {int64_t{1} << 31, int64_t{1} << 31}, 0), "does not fit 63 bits");
  ExpectError(one("a", {int64_t{1} << 62, int64_t{1} << 62, 4, 0}, 0), "does not fit 63 bits");
  ExpectError(one("a", {int64_t{1} << 61}, 0), "does not fit 63 bits");
  ExpectError(one("a", {33}, kTensorQ80), "a multiple of 32 elements for type Q8_0, found 33");
  ExpectError(one("a", {}, kTensorQ80), "a multiple of 32");
  ExpectError(one("a", {32}, 13), "UNIMPLEMENTED: t: tensor \"a\": type Q5_K is not served");
  for (const uint32_t type : {4u, 5u, 31u, 36u, 41u, ~0u}) {
    ExpectError(one("a", {32}, type), "expected a tensor type of ggml");
  }
  for (const uint32_t type : {0u, 1u, 2u, 3u, 8u, 24u, 25u, 26u, 27u, 28u, 30u}) {
    EXPECT_EQ(ErrorOf(one("a", {32}, type).Bytes()), "no error") << type;
  }
}

TEST(Gguf, WantsTensorsOneAfterTheOther) {
  const auto two = [](uint64_t first, uint64_t second, size_t data) {
    Builder b;
    b.Tensor("a", {33}, kTensorI8, first).Tensor("b", {4}, kTensorI8, second).data.resize(data);
    return b;
  };
  EXPECT_EQ(ErrorOf(two(0, 64, 68).Bytes()), "no error");
  ExpectError(two(0, 64, 67), "DATA_LOSS: t: tensor \"b\": expected 4 bytes at offset 64");
  ExpectError(two(0, 64, 20), "DATA_LOSS: t: tensor \"a\"");
  ExpectError(two(0, 33, 100), "tensor \"b\": expected offset 64");
  ExpectError(two(0, 0, 100), "tensor \"b\": expected offset 64");
  ExpectError(two(0, 96, 100), "tensor \"b\": expected offset 64");
  ExpectError(two(32, 96, 128), "tensor \"a\": expected offset 0");
  ExpectError(two(~uint64_t{0}, 64, 100), "tensor \"a\": expected offset 0");
  ExpectError(two(0, 64, 0), "DATA_LOSS");
  Builder same;
  same.Tensor("a", {4}, kTensorI8, 0).Tensor("a", {4}, kTensorI8, 32).data.resize(64);
  ExpectError(same, "tensor \"a\" occurs twice");
}

TEST(Gguf, RefusesSplitFiles) {
  EXPECT_EQ(ErrorOf(Builder().Key("split.count", kU16, Raw<uint16_t>(1)).Bytes()), "no error");
  ExpectError(Builder().Key("split.count", kU16, Raw<uint16_t>(3)), "one of 3 files");
}

TEST(Gguf, OpensAFileBothWays) {
  const std::string path = ::testing::TempDir() + "/gguf_test.gguf";
  Builder b;
  b.Tensor("a", {4}, kTensorI8, 0).data = "abcd";
  std::ofstream(path, std::ios::binary) << b.Bytes();
  for (const MappedFile::Mode mode : {MappedFile::Mode::kMap, MappedFile::Mode::kRead}) {
    Result<GgufFile> opened = GgufFile::Open(path, mode);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    const GgufFile file = std::move(opened).value();
    EXPECT_EQ(std::memcmp(file.FindTensor("a")->data, "abcd", 4), 0);
  }
  std::remove(path.c_str());
  EXPECT_EQ(GgufFile::Open(path, MappedFile::Mode::kMap).status().code(), StatusCode::kNotFound);
}

// Super-blocks beside what the Python package gguf reads in them.
TEST(Gguf, SuperBlocksAreWhatTheReferenceReaderReads) {
  const Result<GgufFile> file =
      GgufFile::Open("tests/fixtures/super_blocks.gguf", MappedFile::Mode::kRead);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  for (const std::string name : {"q4_k", "q6_k"}) {
    const TensorView* blocks = file->FindTensor(name);
    const TensorView* values = file->FindTensor(name + ".f32");
    ASSERT_EQ(blocks->shape, (Shape{3, 512}));
    std::vector<float> got(3 * 512), want(got.size());
    DequantizeRow(blocks->dtype, blocks->data, 3 * 512, got.data());
    std::memcpy(want.data(), values->data, want.size() * sizeof(float));
    EXPECT_EQ(got, want) << name;
  }
}

// Written by the Python package gguf.
TEST(Gguf, ReadsAFileOfTheReferenceWriter) {
  const Result<GgufFile> file =
      GgufFile::Open("tests/fuzz/gguf_corpus/writer.gguf", MappedFile::Mode::kRead);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(**file->FindString("general.architecture"), "llama");
  EXPECT_EQ(**file->FindU32("llama.context_length"), 512u);
  EXPECT_EQ(**file->FindF32("llama.rope.freq_base"), 10000.0f);
  EXPECT_EQ(**file->FindStringArray("tokenizer.ggml.tokens"),
            (std::vector<std::string>{"a", "b", "<s>"}));
  EXPECT_EQ(**file->FindIntArray("x.ints"), (std::vector<int64_t>{1, -2, 3}));
  ASSERT_EQ(file->tensors().size(), 6u);
  EXPECT_EQ(file->FindTensor("token_embd.weight")->shape, (Shape{3, 32}));
  EXPECT_EQ(file->FindTensor("q40")->dtype, DType::kQ4_0);
  EXPECT_EQ(file->FindTensor("q40")->shape, (Shape{5, 64}));
  EXPECT_EQ(file->FindTensor("three")->shape, (Shape{2, 3, 4}));
  int32_t vec[7];
  std::memcpy(vec, file->FindTensor("vec")->data, sizeof(vec));
  for (int i = 0; i < 7; ++i) EXPECT_EQ(vec[i], i);
}

Builder RandomFile() {
  Builder b;
  const int keys = *rc::gen::inRange(0, 5);
  for (int i = 0; i < keys; ++i) {
    const std::string key = "k" + std::to_string(i);
    switch (*rc::gen::inRange(0, 4)) {
      case 0:
        b.Key(key, kU32, Raw(*rc::gen::arbitrary<uint32_t>()));
        break;
      case 1:
        b.Key(key, kString, Text(*rc::gen::arbitrary<std::string>()));
        break;
      case 2:
        b.Array(key, kF32, 2, Raw(1.f) + Raw(2.f));
        break;
      default:
        b.Array(key, kString, 2, Text("") + Text(*rc::gen::arbitrary<std::string>()));
    }
  }
  const int tensors = *rc::gen::inRange(0, 5);
  for (int i = 0; i < tensors; ++i) {
    const auto ne = *rc::gen::container<std::vector<int64_t>>(*rc::gen::inRange<size_t>(0, 5),
                                                              rc::gen::inRange<int64_t>(0, 5));
    b.data.resize((b.data.size() + 31) / 32 * 32);
    b.Tensor("t" + std::to_string(i), ne, kTensorI8, b.data.size());
    int64_t size = 1;
    for (const int64_t n : ne) size *= n;
    b.data.append(static_cast<size_t>(size), static_cast<char>('a' + i));
  }
  return b;
}

TEST(GgufProperty, ReadsWhatWasWritten) {
  EXPECT_TRUE(rc::check([] {
    const Builder b = RandomFile();
    // The last tensors may be empty and the data too; the padding then has to be there.
    const std::string bytes = b.Bytes() + std::string(32, '\0');
    const Result<GgufFile> file = GgufFile::Parse(AsBytes(bytes), "t");
    RC_ASSERT(file.ok());
    RC_ASSERT(file->tensors().size() == b.tensor_count);
    RC_ASSERT(file->metadata().size() == b.key_count);
    for (size_t i = 0; i < file->tensors().size(); ++i) {
      const NamedTensor& tensor = file->tensors()[i];
      RC_ASSERT(tensor.name == "t" + std::to_string(i));
      for (int64_t k = 0; k < tensor.view.bytes(); ++k) {
        RC_ASSERT(static_cast<size_t>(tensor.view.data[k]) == 'a' + i);
      }
    }
  }));
}

// A copy of exactly its size, so that a sanitizer sees a read past the end.
void ParseTight(const std::string& text) {
  const std::vector<std::byte> bytes(AsBytes(text).begin(), AsBytes(text).end());
  const Result<GgufFile> file = GgufFile::Parse(bytes, "t");
  if (!file.ok()) return;
  for (const NamedTensor& tensor : file->tensors()) {
    RC_ASSERT(tensor.view.bytes() >= 0);
    RC_ASSERT(tensor.view.data >= bytes.data());
    RC_ASSERT(tensor.view.data + tensor.view.bytes() <= bytes.data() + bytes.size());
  }
}

TEST(GgufProperty, SurvivesChangedAndMissingBytes) {
  EXPECT_TRUE(rc::check([] {
    const std::string bytes = RandomFile().Bytes();
    std::string changed = bytes;
    changed[*rc::gen::inRange<size_t>(0, bytes.size())] = *rc::gen::arbitrary<char>();
    ParseTight(changed);
    ParseTight(bytes.substr(0, *rc::gen::inRange<size_t>(0, bytes.size())));
  }));
}

}  // namespace
}  // namespace lorica::formats
