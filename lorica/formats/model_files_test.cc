#include "lorica/formats/model_files.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace lorica::formats {
namespace {

namespace fs = std::filesystem;

class SafetensorsSetTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/model_files_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << bytes;
  }
  // A file of one-byte tensors, each holding the first letter of its name.
  void WriteTensors(const std::string& file, const std::vector<std::string>& names) {
    std::string header = "{", data;
    for (const std::string& name : names) {
      const std::string begin = std::to_string(data.size());
      data.push_back(name[0]);
      header += (data.size() > 1 ? ",\"" : "\"") + name +
                R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" + begin + "," +
                std::to_string(data.size()) + "]}";
    }
    header += "}";
    std::string length(8, '\0');
    length[0] = static_cast<char>(header.size() & 0xFF);
    length[1] = static_cast<char>(header.size() >> 8);
    Write(file, length + header + data);
  }
  Result<SafetensorsSet> Open(const SafetensorsLimits& limits = {},
                              const std::string& stem = "model") {
    return SafetensorsSet::Open(folder_, stem, MappedFile::Mode::kMap, limits);
  }
  std::string Error(const SafetensorsLimits& limits = {}) {
    const Result<SafetensorsSet> set = Open(limits);
    return set.ok() ? "no error" : set.status().ToString();
  }
  void ExpectError(std::string_view part) {
    EXPECT_NE(Error().find(part), std::string::npos) << Error();
  }

  std::string folder_;
};

TEST_F(SafetensorsSetTest, OpensTheSingleFile) {
  WriteTensors("model.safetensors", {"b", "a"});
  Write("model.safetensors.index.json", "not read");
  Result<SafetensorsSet> opened = Open();
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  const SafetensorsSet set = std::move(opened).value();
  EXPECT_EQ(std::memcmp(set.Find("a")->data, "a", 1), 0);
  EXPECT_EQ(set.Find("c"), nullptr);
  ASSERT_EQ(set.tensors().size(), 2u);
  EXPECT_EQ(set.tensors()[0]->name, "a");
}

TEST_F(SafetensorsSetTest, OpensShardsOfAnyStem) {
  WriteTensors("x-1.safetensors", {"c", "a"});
  WriteTensors("x-2.safetensors", {"b"});
  Write("adapter_model.safetensors.index.json",
        R"({"metadata":{"total_size":3},"weight_map":{"a":"x-1.safetensors",)"
        R"("b":"x-2.safetensors","c":"x-1.safetensors"}})");
  Result<SafetensorsSet> opened = Open(SafetensorsLimits::ForAdapter(), "adapter_model");
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  const SafetensorsSet set = std::move(opened).value();
  EXPECT_EQ(set.files().size(), 2u);
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_NE(set.Find(name), nullptr);
    EXPECT_EQ(std::memcmp(set.Find(name)->data, name, 1), 0);
  }
  EXPECT_EQ(set.tensors().size(), 3u);
  EXPECT_TRUE(set.warnings().empty());
}

TEST_F(SafetensorsSetTest, SaysWhatTheFolderHoldsInstead) {
  EXPECT_EQ(Error(), "NOT_FOUND: " + folder_ +
                         ": expected model.safetensors or model.safetensors.index.json, found "
                         "neither");
  WriteTensors("model-00001-of-00002.safetensors", {"a"});
  ExpectError("model-00001-of-00002.safetensors is a shard, whose index is missing");
  Write("pytorch_model.bin", "");
  ExpectError("pytorch_model.bin holds pickled weights");
  EXPECT_EQ(
      SafetensorsSet::Open(folder_ + "/none", "model", MappedFile::Mode::kMap).status().code(),
      StatusCode::kNotFound);
}

TEST_F(SafetensorsSetTest, WantsEveryTensorInItsShard) {
  WriteTensors("s1.safetensors", {"a", "b"});
  WriteTensors("s2.safetensors", {"c"});
  const auto map = [this](const std::string& pairs) {
    Write("model.safetensors.index.json", "{\"weight_map\":{" + pairs + "}}");
  };
  map(R"("a":"s1.safetensors","b":"s1.safetensors","c":"s2.safetensors")");
  EXPECT_EQ(Error(), "no error");
  map(R"("a":"s1.safetensors","c":"s2.safetensors")");
  ExpectError("expected tensor \"b\" nowhere, found it in s1.safetensors");
  map(R"("a":"s1.safetensors","b":"s2.safetensors","c":"s2.safetensors")");
  ExpectError("expected tensor \"b\" in s2.safetensors, found it in s1.safetensors");
  map(R"("a":"s1.safetensors","b":"s1.safetensors","c":"s2.safetensors","d":"s2.safetensors")");
  ExpectError("expected tensor \"d\" in s2.safetensors, found no such tensor there");
  map(R"("a":"s1.safetensors","b":"s1.safetensors","c":"s3.safetensors")");
  ExpectError("s3.safetensors: cannot open");
  WriteTensors("s3.safetensors", {"a", "c"});
  ExpectError("expected tensor \"a\" in s1.safetensors, found it in s3.safetensors");
}

TEST_F(SafetensorsSetTest, RefusesShardNamesThatLeaveTheFolder) {
  for (const char* name :
       {"../s.safetensors", "/s.safetensors", "d/s.safetensors", "d\\\\s.safetensors", "..", "",
        ".safetensors", "s.bin", "s\\u0000.safetensors"}) {
    Write("model.safetensors.index.json", "{\"weight_map\":{\"a\":\"" + std::string(name) + "\"}}");
    ExpectError("expected the plain name of a .safetensors file");
  }
}

TEST_F(SafetensorsSetTest, RefusesABrokenIndex) {
  WriteTensors("s.safetensors", {"a"});
  for (const char* index :
       {"", "[]", "{}", R"({"weight_map":[]})", R"({"weight_map":{}})", R"({"weight_map":{"a":1}})",
        R"({"weight_map":{"a":"s.safetensors","a":"s.safetensors"}})",
        R"({"metadata":1,"weight_map":{"a":"s.safetensors"}})",
        R"({"metadata":{"total_size":"1"},"weight_map":{"a":"s.safetensors"}})"}) {
    Write("model.safetensors.index.json", index);
    ExpectError("INVALID_ARGUMENT: " + folder_ + "/model.safetensors.index.json");
  }
}

TEST_F(SafetensorsSetTest, ComparesTheTotalOfTheIndex) {
  WriteTensors("s.safetensors", {"a"});
  Write("model.safetensors.index.json",
        R"({"metadata":{"total_size":2},"weight_map":{"a":"s.safetensors"}})");
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Open()->warnings().size(), 1u);
  EXPECT_NE(Error({.exact_index_total = true}).find("total_size of 1"), std::string::npos);
  Write("model.safetensors.index.json",
        R"({"metadata":{"total_size":1.0},"weight_map":{"a":"s.safetensors"}})");
  EXPECT_EQ(Error({.exact_index_total = true}), "no error");
}

}  // namespace
}  // namespace lorica::formats
