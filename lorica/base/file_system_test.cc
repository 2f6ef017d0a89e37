#include "lorica/base/file_system.h"

#include <gtest/gtest.h>

namespace lorica {
namespace {

// What a sync does shows in a crash alone; that the system is asked for one shows where it cannot
// do it.
TEST(PosixFileSystem, ASyncAsksTheSystem) {
  const std::unique_ptr<FileSystem> files = MakePosixFileSystem();
  auto device = files->Create("/dev/null");
  ASSERT_TRUE(device.ok());
  EXPECT_EQ((*device)->Append(std::as_bytes(std::span("bytes"))), OkStatus());
  EXPECT_EQ((*device)->Sync().code(), StatusCode::kUnavailable);
  EXPECT_EQ(files->SyncFolder("/proc").code(), StatusCode::kUnavailable);
  EXPECT_EQ(files->SyncFolder(testing::TempDir()), OkStatus());
}

TEST(PosixFileSystem, AFullDiskIsExhaustion) {
  auto full = MakePosixFileSystem()->Create("/dev/full");
  ASSERT_TRUE(full.ok());
  EXPECT_EQ((*full)->Append(std::as_bytes(std::span("bytes"))).code(),
            StatusCode::kResourceExhausted);
}

TEST(PosixFileSystem, NamesTheReason) {
  const std::unique_ptr<FileSystem> files = MakePosixFileSystem();
  EXPECT_EQ(files->Create("/no/such/folder/file").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(files->SyncFolder("/no/such/folder").code(), StatusCode::kNotFound);
  EXPECT_EQ(files->Rename("/no/such/file", "/no/other").code(), StatusCode::kNotFound);
  EXPECT_EQ(files->Remove("/no/such/file"), OkStatus());
}

}  // namespace
}  // namespace lorica
