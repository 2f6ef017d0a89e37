#include "lorica/server/adapter_admin.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "lorica/formats/test_files.h"
#include "lorica/server/service.h"

namespace lorica::server {
namespace {

constexpr const char* kModel = "tests/fixtures/tiny/llama";

// The real disk, of which every operation from the n-th on fails.
class FailingFileSystem : public FileSystem {
 public:
  explicit FailingFileSystem(int64_t fails_at) : fails_at_(fails_at) {}

  Result<std::unique_ptr<File>> Create(const std::string& path) override {
    if (Fails()) return Broken();
    LORICA_ASSIGN_OR_RETURN(std::unique_ptr<File> file, disk_->Create(path));
    return std::unique_ptr<File>(std::make_unique<FailingFile>(this, std::move(file)));
  }
  Result<std::string> Read(const std::string& path, int64_t limit) override {
    return disk_->Read(path, limit);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return Fails() ? Broken() : disk_->Rename(from, to);
  }
  Status SyncFolder(const std::string& path) override {
    return Fails() ? Broken() : disk_->SyncFolder(path);
  }
  Status MakeFolder(const std::string& path) override {
    return Fails() ? Broken() : disk_->MakeFolder(path);
  }
  Status Remove(const std::string& path) override { return disk_->Remove(path); }
  Result<std::vector<std::string>> List(const std::string& path) override {
    return disk_->List(path);
  }
  bool Exists(const std::string& path) override { return disk_->Exists(path); }

  int64_t operations() const { return operations_; }
  void FailAt(int64_t n) { fails_at_ = n; }

 private:
  class FailingFile : public File {
   public:
    FailingFile(FailingFileSystem* owner, std::unique_ptr<File> file)
        : owner_(owner), file_(std::move(file)) {}
    Status Append(std::span<const std::byte> bytes) override {
      return owner_->Fails() ? Broken() : file_->Append(bytes);
    }
    Status Sync() override { return owner_->Fails() ? Broken() : file_->Sync(); }

   private:
    FailingFileSystem* owner_;
    std::unique_ptr<File> file_;
  };

  static Status Broken() { return Unavailable("the disk is broken"); }
  bool Fails() { return operations_++ >= fails_at_; }

  const std::unique_ptr<FileSystem> disk_ = MakePosixFileSystem();
  int64_t fails_at_;
  int64_t operations_ = 0;
};

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class AdapterAdminTest : public ::testing::Test {
 protected:
  AdapterAdminTest() {
    ServiceOptions options;
    options.model_path = kModel;
    options.served_names = {"base"};
    options.threads = 1;
    options.engine.kv_bytes = int64_t{1} << 20;
    options.engine.adapter_bytes = int64_t{8} << 20;
    auto service = Service::Open(options);
    LORICA_CHECK(service.ok());
    service_ = *std::move(service);
  }

  std::unique_ptr<AdapterAdmin> Open(std::unique_ptr<FileSystem> files) {
    AdapterAdmin::Options options;
    options.engine = &service_->engine();
    options.model = &service_->model();
    options.api = &service_->api();
    options.model_name = "llama";
    options.state_folder = folder_ / "state";
    auto admin = AdapterAdmin::Open(options, std::move(files));
    LORICA_CHECK(admin.ok());
    return *std::move(admin);
  }

  // The tiny model's plain adapter with its alpha as asked: other content of equal shapes.
  ApiResult<std::string> Put(AdapterAdmin* admin, const std::string& name, int alpha) {
    const std::string source = std::string(kModel) + "/adapters/plain/";
    std::string config = ReadAll(source + "adapter_config.json");
    const size_t colon = config.find(':', config.find("\"lora_alpha\""));
    config.replace(colon + 1, config.find_first_of(",}\n", colon) - colon - 1,
                   std::to_string(alpha));
    std::string body;
    for (const auto& [file, bytes] :
         {std::pair<std::string, std::string>("adapter_config.json", config),
          {"adapter_model.safetensors", ReadAll(source + "adapter_model.safetensors")}}) {
      body += "--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"" + file +
              "\"\r\n\r\n" + bytes + "\r\n";
    }
    AdapterAdmin::Upload upload;
    upload.name = name;
    upload.body_path = folder_ / "body";
    upload.content_type = "multipart/form-data; boundary=B";
    std::ofstream(upload.body_path, std::ios::binary) << body << "--B--\r\n";
    return admin->Put(upload);
  }
  static bool IsGood(const ApiResult<std::string>& answer) {
    return std::holds_alternative<std::string>(answer);
  }
  // The digest that is served under the name; empty: none.
  std::string Served(const std::string& name) {
    const auto version = service_->engine().registry().Acquire(name);
    return version.ok() ? version->version().digest() : "";
  }

  const formats::testing::TempDir folder_;
  std::unique_ptr<Service> service_;
};

// Durable before it is published, published before it is answered: with a disk that fails at any of
// its operations, what was not made durable is neither acknowledged nor served.
TEST_F(AdapterAdminTest, AnUploadIsDurableBeforeItIsServedOrAnswered) {
  auto files = std::make_unique<FailingFileSystem>(INT64_MAX);
  FailingFileSystem* disk = files.get();
  const std::unique_ptr<AdapterAdmin> admin = Open(std::move(files));
  int64_t before = disk->operations();
  ASSERT_TRUE(IsGood(Put(admin.get(), "a", 3)));
  const int64_t needed = disk->operations() - before;
  ASSERT_GE(needed, 12) << "2 files of 3 operations, 2 folders, and the manifest of 5";
  const std::string old = Served("a");
  ASSERT_FALSE(old.empty());
  for (int64_t fails_at = 0; fails_at < needed; ++fails_at) {
    disk->FailAt(disk->operations() + fails_at);
    const int alpha = 100 + static_cast<int>(fails_at);
    EXPECT_FALSE(IsGood(Put(admin.get(), "a", alpha))) << fails_at << " of " << needed;
    EXPECT_EQ(Served("a"), old) << fails_at << " of " << needed;
    EXPECT_FALSE(IsGood(Put(admin.get(), "new", alpha))) << fails_at;
    EXPECT_EQ(Served("new"), "") << fails_at;
  }
  disk->FailAt(INT64_MAX);
  EXPECT_TRUE(IsGood(Put(admin.get(), "a", 5)));
  EXPECT_NE(Served("a"), old);
}

TEST_F(AdapterAdminTest, ADeleteIsDurableBeforeItIsAnswered) {
  auto files = std::make_unique<FailingFileSystem>(INT64_MAX);
  FailingFileSystem* disk = files.get();
  const std::unique_ptr<AdapterAdmin> admin = Open(std::move(files));
  ASSERT_TRUE(IsGood(Put(admin.get(), "a", 3)));
  for (int64_t fails_at = 0; fails_at < 5; ++fails_at) {
    disk->FailAt(disk->operations() + fails_at);
    EXPECT_FALSE(IsGood(admin->Delete("a", ""))) << fails_at;
    EXPECT_NE(Served("a"), "") << fails_at;
  }
  disk->FailAt(INT64_MAX);
  EXPECT_TRUE(IsGood(admin->Delete("a", "")));
  EXPECT_EQ(Served("a"), "");
}

}  // namespace
}  // namespace lorica::server
