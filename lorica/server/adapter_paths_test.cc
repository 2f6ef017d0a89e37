#include "lorica/server/adapter_paths.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace lorica::server {
namespace {

namespace fs = std::filesystem;

class AdapterPathsTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(root_);
    fs::create_directories(root_ + "/in/a");
    fs::create_directories(root_ + "/out");
    std::ofstream(root_ + "/out/file") << "x";
    std::ofstream(root_ + "/in/a/file") << "x";
  }
  const std::string root_ = testing::TempDir() + "adapter_paths_test";
};

TEST_F(AdapterPathsTest, NothingIsInsideAFolderThatIsNotThere) {
  EXPECT_FALSE(CheckInside(root_ + "/none", root_ + "/in/a").ok());
}

TEST_F(AdapterPathsTest, LinksMayNotLeadOut) {
  EXPECT_EQ(CheckInside(root_ + "/in", root_ + "/in/a"), OkStatus());
  EXPECT_EQ(CheckInside(root_ + "/in", root_ + "/in/a/file"), OkStatus());
  EXPECT_FALSE(CheckInside(root_ + "/in", root_ + "/in/b").ok());
  EXPECT_FALSE(CheckInside(root_ + "/in", root_ + "/out").ok());
  fs::create_symlink("../../out/file", root_ + "/in/a/link");
  EXPECT_FALSE(CheckInside(root_ + "/in", root_ + "/in/a").ok());
}

TEST_F(AdapterPathsTest, FoldersAreListedByName) {
  fs::create_directories(root_ + "/in/.hidden");
  fs::create_directories(root_ + "/in/0");
  std::ofstream(root_ + "/in/m.gguf") << "x";
  std::ofstream(root_ + "/in/README") << "x";
  const auto listed = ListAdapters(root_ + "/in");
  ASSERT_TRUE(listed.ok());
  std::string names;
  for (const NamedPath& adapter : *listed) names += adapter.name + " ";
  EXPECT_EQ(names, "0 a m ");
  EXPECT_FALSE(ListAdapters(root_ + "/none").ok());
}

}  // namespace
}  // namespace lorica::server
