#include "lorica/base/mapped_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lorica/base/test_chances.h"

namespace lorica {
namespace {

class MappedFileTest : public testing::TestWithParam<MappedFile::Mode> {
 protected:
  std::string Write(const std::string& content) {
    const std::string path = testing::TempDir() + "mapped_file_test.bin";
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
};

TEST_P(MappedFileTest, ReadsWhatIsThere) {
  Result<MappedFile> file = MappedFile::Open(Write("lorica"), GetParam());
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->text(), "lorica");
  MappedFile moved = std::move(*file);
  EXPECT_EQ(moved.text(), "lorica");
}

TEST_P(MappedFileTest, AnEmptyFileIsLegal) {
  Result<MappedFile> file = MappedFile::Open(Write(""), GetParam());
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->bytes().empty());
}

TEST(MappedFile, GivesWayWhileItReads) {
  const std::string path = testing::TempDir() + "mapped_file_chances.bin";
  std::ofstream(path, std::ios::binary) << std::string(8 << 20, 'x');
  const auto read = [&] {
    EXPECT_TRUE(MappedFile::Open(path, MappedFile::Mode::kRead)->text().ends_with("xx"));
  };
  EXPECT_GE(ChancesIn(read), (8 << 20) / (256 << 10));
}

TEST_P(MappedFileTest, NamesTheReason) {
  EXPECT_EQ(MappedFile::Open("/no/such/file", GetParam()).status().code(), StatusCode::kNotFound);
  EXPECT_NE(MappedFile::Open(testing::TempDir(), GetParam()).status().message().find("a folder"),
            std::string::npos);
  const Status large = MappedFile::Open(Write("lorica"), GetParam(), 5).status();
  EXPECT_EQ(large.code(), StatusCode::kOutOfRange);
  EXPECT_NE(large.message().find("at most 5 bytes, found 6"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Modes, MappedFileTest,
                         testing::Values(MappedFile::Mode::kMap, MappedFile::Mode::kRead));

}  // namespace
}  // namespace lorica
