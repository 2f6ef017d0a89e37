#include "lorica/formats/safetensors.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdio>
#include <cstring>
#include <fstream>

namespace lorica::formats {
namespace {

std::string Length(uint64_t n) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(n >> (8 * i)));
  return bytes;
}

std::string File(const std::string& header, const std::string& data = "") {
  return Length(header.size()) + header + data;
}

std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

std::string ErrorOf(const std::string& bytes, const SafetensorsLimits& limits = {}) {
  const Result<SafetensorsFile> file = SafetensorsFile::Parse(AsBytes(bytes), "t", limits);
  return file.ok() ? "no error" : file.status().ToString();
}

// The error of a file with one U8 tensor "a" of four bytes whose entry is `entry`.
std::string EntryError(const std::string& entry) {
  return ErrorOf(File("{\"a\":" + entry + "}", "abcd"));
}

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

constexpr char kGood[] = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";

TEST(Safetensors, ReadsTensorsInDataOrderAndMetadata) {
  const std::string bytes = File(R"({"z":{"dtype":"F16","shape":[2,1],"data_offsets":[1,5]},)"
                                 R"("__metadata__":{"format":"pt","":""},)"
                                 R"("scalar":{"dtype":"F32","shape":[],"data_offsets":[5,9]},)"
                                 R"("empty":{"dtype":"F32","shape":[0,3],"data_offsets":[5,5]},)"
                                 R"("b":{"data_offsets":[0,1],"shape":[1],"dtype":"BOOL"}}  )",
                                 "123456789");
  const Result<SafetensorsFile> file = SafetensorsFile::Parse(AsBytes(bytes), "t");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  ASSERT_EQ(file->tensors().size(), 4u);
  EXPECT_EQ(file->tensors()[0].name, "b");
  EXPECT_EQ(file->tensors()[1].name, "z");
  EXPECT_EQ(file->tensors()[2].name, "empty");
  EXPECT_EQ(file->tensors()[3].name, "scalar");
  const TensorView* z = file->Find("z");
  ASSERT_NE(z, nullptr);
  EXPECT_EQ(z->dtype, DType::kF16);
  EXPECT_EQ(z->shape, (Shape{2, 1}));
  EXPECT_EQ(std::memcmp(z->data, "2345", 4), 0);
  EXPECT_EQ(file->Find("empty")->bytes(), 0);
  EXPECT_EQ(file->Find("scalar")->bytes(), 4);
  EXPECT_EQ(file->Find("scala"), nullptr);
  EXPECT_EQ(file->Find("__metadata__"), nullptr);
  EXPECT_EQ(file->metadata(), (std::map<std::string, std::string>{{"", ""}, {"format", "pt"}}));
}

TEST(Safetensors, ReadsFilesWithoutTensors) {
  EXPECT_EQ(ErrorOf(File("{}")), "no error");
  EXPECT_EQ(ErrorOf(File(R"({"__metadata__":{}})")), "no error");
  EXPECT_TRUE(Has(ErrorOf(File("{}", "x")), "expected the data to end after 0 bytes, found 1"));
}

// Rule 1.
TEST(Safetensors, ChecksTheHeaderLength) {
  EXPECT_EQ(ErrorOf(""), "DATA_LOSS: t: expected a safetensors file, found 0 bytes");
  EXPECT_EQ(ErrorOf("\2\0\0\0\0\0\0"), "DATA_LOSS: t: expected a safetensors file, found 1 bytes");
  EXPECT_EQ(ErrorOf(Length(3) + "{}"),
            "DATA_LOSS: t: expected a header of 3 bytes, found 2: the file is truncated");
  EXPECT_TRUE(Has(ErrorOf(Length(100'000'000) + "{}"), "DATA_LOSS"));
  EXPECT_TRUE(Has(ErrorOf(Length(100'000'001) + "{}"), "OUT_OF_RANGE"));
  EXPECT_TRUE(Has(ErrorOf(Length(~uint64_t{0}) + "{}"), "OUT_OF_RANGE"));
  EXPECT_TRUE(Has(ErrorOf(Length(~uint64_t{0} - 7) + "{}"), "OUT_OF_RANGE"));
  EXPECT_TRUE(Has(ErrorOf(File(kGood, "abcd"), {.header_bytes = 52}), "at most 52 bytes"));
  EXPECT_TRUE(Has(ErrorOf(Length(0)), "starts with '{'"));
}

TEST(Safetensors, BoundsTheNumberOfTensors) {
  const std::string entry = R"(:{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  const std::string two = File("{\"a\"" + entry + ",\"b\"" + entry + "}");
  EXPECT_EQ(ErrorOf(two, {.tensors = 2}), "no error");
  EXPECT_EQ(ErrorOf(two, {.tensors = 1}),
            "OUT_OF_RANGE: t: expected at most 1 tensors, found more");
}

// Rule 2.
TEST(Safetensors, TakesOneJsonObjectOnly) {
  for (const std::string& header : std::vector<std::string>{
           "[]", "null", " {}", "\xEF\xBB\xBF{}", "{}{}", "{}x", "{", "{\"a\":1",
           std::string("{}\0", 3), "{},\"__metadata__\":{}", "{\"\xFF\":1}"}) {
    EXPECT_TRUE(Has(ErrorOf(File(header)), "INVALID_ARGUMENT: t: ")) << header;
  }
  const std::string bomb = "{\"a\":" + std::string(1'000'000, '[');
  EXPECT_TRUE(Has(ErrorOf(File(bomb)), "nest deeper than 3"));
}

// Rule 3.
TEST(Safetensors, RefusesDuplicateKeys) {
  const std::string entry = R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  EXPECT_TRUE(Has(ErrorOf(File("{\"a\":" + entry + ",\"a\":" + entry + "}", "abcd")),
                  "the key \"a\" twice"));
  EXPECT_TRUE(Has(EntryError(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4],"shape":[4]})"),
                  "the key \"shape\" twice"));
  EXPECT_TRUE(Has(ErrorOf(File(R"({"__metadata__":{"x":"","x":""}})")), "the key \"x\" twice"));
  EXPECT_TRUE(Has(ErrorOf(File(R"({"__metadata__":{},"__metadata__":{}})")), "twice"));
}

// Rule 4.
TEST(Safetensors, ChecksMetadataAndEntryKeys) {
  EXPECT_EQ(ErrorOf(File(R"({"__metadata__":{"x":0}})")),
            "INVALID_ARGUMENT: t: __metadata__: \"x\": expected a string, found 0");
  EXPECT_TRUE(Has(ErrorOf(File(R"({"__metadata__":{"x":null}})")), "expected a string"));
  EXPECT_TRUE(Has(ErrorOf(File(R"({"__metadata__":"x"})")), "expected a JSON object"));
  EXPECT_TRUE(Has(ErrorOf(File(R"({"__metadata__":null})")), "expected a JSON object"));
  EXPECT_TRUE(Has(
      ErrorOf(File(R"({"__metadata__":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "abcd")),
      "__metadata__"));
  EXPECT_TRUE(Has(EntryError("[]"), "tensor \"a\": expected a JSON object"));
  EXPECT_TRUE(
      Has(EntryError(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4],"extra":null})"), "extra"));
  EXPECT_TRUE(Has(EntryError(R"({"shape":[4],"data_offsets":[0,4]})"), "\"dtype\""));
  EXPECT_TRUE(Has(EntryError(R"({"dtype":"U8","data_offsets":[0,4]})"), "\"shape\""));
  EXPECT_TRUE(Has(EntryError(R"({"dtype":"U8","shape":[4]})"), "\"data_offsets\""));
}

// Rule 5.
TEST(Safetensors, ChecksIntegersAndSizes) {
  for (const char* dimension :
       {"4.0", "4e0", "04", "-4", "-0", "\"4\"", "null", "true", "18446744073709551614",
        "9223372036854775808", "99999999999999999999999"}) {
    const std::string text = dimension;
    EXPECT_TRUE(Has(EntryError(R"({"dtype":"U8","shape":[)" + text + R"(],"data_offsets":[0,4]})"),
                    "INVALID_ARGUMENT"))
        << text;
    EXPECT_TRUE(Has(EntryError(R"({"dtype":"U8","shape":[4],"data_offsets":[0,)" + text + "]}"),
                    "INVALID_ARGUMENT"))
        << text;
  }
  for (const char* offsets : {"[]", "[4]", "[0,4,4]", "4", "{}", "[4,0]"}) {
    EXPECT_TRUE(
        Has(EntryError(R"({"dtype":"U8","shape":[4],"data_offsets":)" + std::string(offsets) + "}"),
            "\"data_offsets\": expected"))
        << offsets;
  }
  EXPECT_TRUE(Has(EntryError(R"({"dtype":"U8","shape":[5],"data_offsets":[0,4]})"),
                  "expected 5 bytes for U8 [5], found data_offsets of 4"));
  EXPECT_TRUE(
      Has(EntryError(R"({"dtype":"F32","shape":[4],"data_offsets":[0,4]})"), "expected 16"));
  EXPECT_TRUE(Has(EntryError(R"({"dtype":"U8","shape":[3],"data_offsets":[0,4]})"), "expected 3"));
  EXPECT_TRUE(Has(EntryError(R"({"dtype":"U8","shape":[-1,-4],"data_offsets":[0,4]})"),
                  "\"shape\": expected an array of non-negative integers"));
  for (const char* shape : {"[4294967296,4294967296]", "[9223372036854775807]",
                            "[4294967296,2147483648]", "[0,4294967296,4294967296]"}) {
    EXPECT_TRUE(Has(
        EntryError(R"({"dtype":"F64","shape":)" + std::string(shape) + R"(,"data_offsets":[0,0]})"),
        "does not fit 63 bits"))
        << shape;
  }
}

// Rule 6.
TEST(Safetensors, WantsTheDataCoveredExactly) {
  const auto two = [](const char* first, const char* second, const char* data) {
    return ErrorOf(File(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + std::string(first) +
                            R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + second + "}}",
                        data));
  };
  EXPECT_EQ(two("[0,2]", "[2,4]", "abcd"), "no error");
  EXPECT_EQ(two("[2,4]", "[0,2]", "abcd"), "no error");
  EXPECT_TRUE(Has(two("[0,2]", "[3,5]", "abcde"), "tensor \"b\": expected data_offsets to begin"));
  EXPECT_TRUE(Has(two("[0,2]", "[1,3]", "abc"), "tensor \"b\": expected data_offsets to begin"));
  EXPECT_TRUE(Has(two("[0,2]", "[0,2]", "ab"), "tensor \"b\": expected data_offsets to begin"));
  EXPECT_TRUE(Has(two("[1,3]", "[3,5]", "abcde"), "tensor \"a\": expected data_offsets to begin"));
  EXPECT_TRUE(Has(two("[0,2]", "[2,4]", "abcde"), "end after 4 bytes, found 5"));
  EXPECT_EQ(two("[0,2]", "[2,4]", "abc"),
            "DATA_LOSS: t: expected 4 bytes of data, found 3: the file is truncated");
}

// Rule 7.
TEST(Safetensors, KnowsTheDtypesOfTheFormat) {
  for (const char* name : {"BOOL", "U8", "I8", "I16", "U16", "I32", "U32", "I64", "U64", "F16",
                           "BF16", "F32", "F64", "F8_E4M3", "F8_E5M2"}) {
    const std::string bytes =
        File(R"({"a":{"dtype":")" + std::string(name) + R"(","shape":[0],"data_offsets":[0,0]}})");
    const Result<SafetensorsFile> file = SafetensorsFile::Parse(AsBytes(bytes), "t");
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    EXPECT_EQ(DTypeName(file->Find("a")->dtype), name);
  }
  for (const char* name : {"F8_E8M0", "F4", "F6_E2M3", "F8_E4M3FNUZ", "C64"}) {
    EXPECT_EQ(
        EntryError(R"({"dtype":")" + std::string(name) + R"(","shape":[4],"data_offsets":[0,4]})"),
        "UNIMPLEMENTED: t: tensor \"a\": dtype " + std::string(name) + " is not served");
  }
  for (const char* name : {"U4", "I4", "f32", "", "Q8_0", "F32 "}) {
    EXPECT_TRUE(Has(
        EntryError(R"({"dtype":")" + std::string(name) + R"(","shape":[4],"data_offsets":[0,4]})"),
        "expected a safetensors dtype"))
        << name;
  }
  EXPECT_TRUE(Has(EntryError(R"({"dtype":0,"shape":[4],"data_offsets":[0,4]})"), "\"dtype\""));
}

TEST(Safetensors, OpensAFileBothWays) {
  const std::string path = testing::TempDir() + "/safetensors_test.safetensors";
  const std::string bytes = File(kGood, "abcd");
  std::ofstream(path, std::ios::binary) << bytes;
  for (const MappedFile::Mode mode : {MappedFile::Mode::kMap, MappedFile::Mode::kRead}) {
    Result<SafetensorsFile> opened = SafetensorsFile::Open(path, mode);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    const SafetensorsFile file = std::move(opened).value();
    EXPECT_EQ(std::memcmp(file.Find("a")->data, "abcd", 4), 0);
    EXPECT_EQ(SafetensorsFile::Open(path, mode, {.file_bytes = 10}).status().code(),
              StatusCode::kOutOfRange);
  }
  std::ofstream(path, std::ios::binary) << bytes.substr(0, bytes.size() - 1);
  EXPECT_EQ(SafetensorsFile::Open(path, MappedFile::Mode::kMap).status().message(),
            path + ": expected 4 bytes of data, found 3: the file is truncated");
  std::remove(path.c_str());
  EXPECT_EQ(SafetensorsFile::Open(path, MappedFile::Mode::kMap).status().code(),
            StatusCode::kNotFound);
}

// Written by the Python package safetensors.
TEST(Safetensors, ReadsAFileOfTheReferenceWriter) {
  const Result<SafetensorsFile> file = SafetensorsFile::Open(
      "tests/fuzz/safetensors_corpus/numpy.safetensors", MappedFile::Mode::kRead);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(file->metadata().at("\xC3\xA4"), "\xC3\xBC");
  ASSERT_EQ(file->tensors().size(), 6u);
  EXPECT_EQ(file->Find("b")->dtype, DType::kI64);
  EXPECT_EQ(file->Find("b")->shape, (Shape{5}));
  EXPECT_EQ(file->Find("e")->shape, (Shape{0, 3}));
  float h[8];
  DequantizeRow(DType::kF16, file->Find("h")->data, 8, h);
  for (const float value : h) EXPECT_EQ(value, 1.0f);
  double s = 0;
  std::memcpy(&s, file->Find("s")->data, sizeof(s));
  EXPECT_EQ(s, 2.5);
}

struct Sample {
  std::string bytes;
  std::vector<std::pair<std::string, Shape>> tensors;
  std::string data;
};

// A valid file of F16 tensors.
Sample RandomSample() {
  Sample sample;
  std::string header = "{";
  const int count = *rc::gen::inRange(0, 6);
  for (int i = 0; i < count; ++i) {
    const Shape shape = *rc::gen::container<Shape>(*rc::gen::inRange<size_t>(0, 5),
                                                   rc::gen::inRange<int64_t>(0, 4));
    const std::string name = "t" + std::to_string(*rc::gen::inRange(0, 10)) + std::to_string(i);
    const size_t begin = sample.data.size();
    for (int64_t k = 0; k < 2 * ElementCount(shape); ++k) {
      sample.data.push_back(static_cast<char>(sample.data.size()));
    }
    std::string dimensions;
    for (const int64_t d : shape) dimensions += (dimensions.empty() ? "" : ",") + std::to_string(d);
    header += (i == 0 ? "\"" : ",\"") + name + R"(":{"dtype":"F16","shape":[)" + dimensions +
              R"(],"data_offsets":[)" + std::to_string(begin) + "," +
              std::to_string(sample.data.size()) + "]}";
    sample.tensors.emplace_back(name, shape);
  }
  sample.bytes = File(header + "}", sample.data);
  return sample;
}

TEST(SafetensorsProperty, ReadsWhatWasWritten) {
  EXPECT_TRUE(rc::check([] {
    const Sample sample = RandomSample();
    const Result<SafetensorsFile> file = SafetensorsFile::Parse(AsBytes(sample.bytes), "t");
    RC_ASSERT(file.ok());
    RC_ASSERT(file->tensors().size() == sample.tensors.size());
    const std::byte* next = AsBytes(sample.bytes).data() + sample.bytes.size() - sample.data.size();
    for (const auto& [name, shape] : sample.tensors) {
      const TensorView* view = file->Find(name);
      RC_ASSERT(view != nullptr);
      RC_ASSERT(view->shape == shape);
      RC_ASSERT(view->bytes() == 0 || view->data == next);
      next += view->bytes();
    }
  }));
}

// A copy of exactly its size, so that a sanitizer sees a read past the end.
void ParseTight(const std::string& text) {
  const std::vector<std::byte> bytes(AsBytes(text).begin(), AsBytes(text).end());
  const Result<SafetensorsFile> file = SafetensorsFile::Parse(bytes, "t");
  if (!file.ok()) return;
  for (const NamedTensor& tensor : file->tensors()) {
    RC_ASSERT(tensor.view.bytes() >= 0);
    RC_ASSERT(tensor.view.data >= bytes.data());
    RC_ASSERT(tensor.view.data + tensor.view.bytes() <= bytes.data() + bytes.size());
  }
}

TEST(SafetensorsProperty, SurvivesChangedAndMissingBytes) {
  EXPECT_TRUE(rc::check([] {
    const Sample sample = RandomSample();
    std::string changed = sample.bytes;
    changed[*rc::gen::inRange<size_t>(0, changed.size())] = *rc::gen::arbitrary<char>();
    ParseTight(changed);
    const std::string cut = sample.bytes.substr(0, *rc::gen::inRange<size_t>(0, changed.size()));
    ParseTight(cut);
    RC_ASSERT(!SafetensorsFile::Parse(AsBytes(cut), "t").ok());
  }));
}

}  // namespace
}  // namespace lorica::formats
