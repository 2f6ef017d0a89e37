// For tests: a file system in memory that keeps apart what is durable and what a crash may lose:
// bytes that were not synced, and names in folders that were not synced. Not part of the library.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lorica/base/file_system.h"

namespace lorica::server {

class CrashingFileSystem : public FileSystem {
 public:
  // The operation number `n` (from 0) and all after it do not happen: the process is gone.
  void CrashBefore(int64_t n) { crash_at_ = n; }
  int64_t operations() const { return operations_; }
  // Operation `n` fails and changes nothing; the process lives on.
  void FailOnce(int64_t n) { fail_once_ = n; }
  // Ignores one kind of sync, as a program that forgot it would.
  void SkipFileSync() { skip_file_sync_ = true; }
  void SkipFolderSync(const std::string& path) { skipped_.insert(path); }

  // What is there after the crash: the durable names with the durable bytes; of what was not synced
  // `keep` decides, since a disk may have written it or not.
  void Restart(const std::function<bool()>& keep) {
    for (auto& [path, folder] : folders_) {
      std::map<std::string, std::shared_ptr<Node>> names = folder.durable;
      for (const auto& [name, node] : folder.current) {
        if (keep()) names[name] = node;
      }
      for (auto it = names.begin(); it != names.end();) {
        const bool removed = !folder.current.contains(it->first) && keep();
        it = removed ? names.erase(it) : std::next(it);
      }
      folder.current = folder.durable = std::move(names);
      for (auto& [name, node] : folder.current) {
        if (node->is_folder) continue;
        if (!keep()) node->bytes = node->durable_bytes;
        node->durable_bytes = node->bytes;
      }
    }
    crash_at_ = INT64_MAX;
    fail_once_ = -1;
    operations_ = 0;
  }

  Result<std::unique_ptr<File>> Create(const std::string& path) override {
    if (!Alive()) return Gone();
    const auto [folder, name] = Split(path);
    Folder* in = Find(folder);
    if (in == nullptr) return NotFound(path);
    auto node = std::make_shared<Node>();
    in->current[name] = node;
    return std::unique_ptr<File>(std::make_unique<OpenFile>(this, node));
  }
  Result<std::string> Read(const std::string& path, int64_t) override {
    const std::shared_ptr<Node> node = FindNode(path);
    if (node == nullptr || node->is_folder) return NotFound(path);
    return node->bytes;
  }
  Status Rename(const std::string& from, const std::string& to) override {
    if (!Alive()) return Gone();
    const auto [from_folder, from_name] = Split(from);
    const auto [to_folder, to_name] = Split(to);
    Folder* source = Find(from_folder);
    Folder* target = Find(to_folder);
    if (source == nullptr || target == nullptr || !source->current.contains(from_name)) {
      return NotFound(from);
    }
    const std::shared_ptr<Node> node = source->current[from_name];
    if (node->is_folder) {
      // What is in it goes with it, named by its path here.
      std::map<std::string, Folder> moved;
      for (const auto& [path, folder] : folders_) {
        if (path == from || path.starts_with(from + "/")) {
          moved[to + path.substr(from.size())] = folder;
        }
      }
      for (auto& [path, folder] : moved) folders_[path] = std::move(folder);
    }
    source->current.erase(from_name);
    target->current[to_name] = node;
    return OkStatus();
  }
  Status SyncFolder(const std::string& path) override {
    if (!Alive()) return Gone();
    Folder* folder = Find(path == "/" ? "" : path);
    if (folder == nullptr) return NotFound(path);
    if (!skipped_.contains(path)) folder->durable = folder->current;
    return OkStatus();
  }
  Status MakeFolder(const std::string& path) override {
    if (!Alive()) return Gone();
    if (Exists(path)) return OkStatus();
    const auto [parent, name] = Split(path);
    auto node = std::make_shared<Node>();
    node->is_folder = true;
    folders_[parent].current[name] = node;
    folders_[path] = Folder();
    return OkStatus();
  }
  Status Remove(const std::string& path) override {
    if (!Alive()) return Gone();
    const auto [parent, name] = Split(path);
    if (Folder* folder = Find(parent)) folder->current.erase(name);
    return OkStatus();
  }
  Result<std::vector<std::string>> List(const std::string& path) override {
    Folder* folder = Find(path);
    if (folder == nullptr) return NotFound(path);
    std::vector<std::string> names;
    for (const auto& [name, node] : folder->current) names.push_back(name);
    return names;
  }
  bool Exists(const std::string& path) override { return FindNode(path) != nullptr; }

 private:
  struct Node {
    bool is_folder = false;
    std::string bytes;
    std::string durable_bytes;
  };
  struct Folder {
    std::map<std::string, std::shared_ptr<Node>> current;
    std::map<std::string, std::shared_ptr<Node>> durable;
  };
  class OpenFile : public File {
   public:
    OpenFile(CrashingFileSystem* owner, std::shared_ptr<Node> node)
        : owner_(owner), node_(std::move(node)) {}
    Status Append(std::span<const std::byte> bytes) override {
      if (!owner_->Alive()) return Gone();
      node_->bytes.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return OkStatus();
    }
    Status Sync() override {
      if (!owner_->Alive()) return Gone();
      if (!owner_->skip_file_sync_) node_->durable_bytes = node_->bytes;
      return OkStatus();
    }

   private:
    CrashingFileSystem* owner_;
    std::shared_ptr<Node> node_;
  };

  static Status Gone() { return Unavailable("the process is gone"); }
  bool Alive() {
    const int64_t operation = operations_++;
    return operation < crash_at_ && operation != fail_once_;
  }
  static std::pair<std::string, std::string> Split(const std::string& path) {
    const size_t slash = path.rfind('/');
    return {path.substr(0, slash), path.substr(slash + 1)};
  }
  Folder* Find(const std::string& path) {
    if (FindNode(path) == nullptr && !path.empty()) return nullptr;
    return &folders_[path];
  }
  std::shared_ptr<Node> FindNode(const std::string& path) {
    const auto [parent, name] = Split(path);
    const auto folder = folders_.find(parent);
    if (folder == folders_.end()) return nullptr;
    const auto found = folder->second.current.find(name);
    return found == folder->second.current.end() ? nullptr : found->second;
  }

  std::map<std::string, Folder> folders_;  // by path; "" is the root
  int64_t crash_at_ = INT64_MAX;
  int64_t fail_once_ = -1;
  int64_t operations_ = 0;
  bool skip_file_sync_ = false;
  std::set<std::string> skipped_;
};

}  // namespace lorica::server
