#include "lorica/base/mapped_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "lorica/base/test_pieces.h"

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

TEST_P(MappedFileTest, KeepsNoProcessorForLong) {
  const std::string path = Write(std::string(32 << 20, 'x'));
  // Freed after the piece: the system itself ends slices in the middle of that.
  std::optional<Result<MappedFile>> file;
  EXPECT_LT(LongestPieceOf([&] { file.emplace(MappedFile::Open(path, GetParam())); }),
            kLongestPiece);
  EXPECT_TRUE((*file)->text().ends_with("xx"));
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
