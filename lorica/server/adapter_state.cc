#include "lorica/server/adapter_state.h"

#include <algorithm>
#include <utility>

namespace lorica::server {
namespace {

constexpr int64_t kLargestManifest = int64_t{256} << 20;
constexpr const char* kManifest = "/manifest";
constexpr const char* kNextManifest = "/manifest.next";
constexpr const char* kAdapters = "/adapters";
constexpr const char* kStaging = "/staging";

std::string ParentOf(std::string folder) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  const size_t slash = folder.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : folder.substr(0, slash);
}

}  // namespace

Result<std::unique_ptr<AdapterState>> AdapterState::Open(FileSystem* files,
                                                         const std::string& folder,
                                                         std::vector<std::string>* damaged) {
  std::unique_ptr<AdapterState> state(new AdapterState(files, folder));
  if (!files->Exists(folder)) {
    LORICA_RETURN_IF_ERROR(files->MakeFolder(folder));
    LORICA_RETURN_IF_ERROR(files->SyncFolder(ParentOf(folder)));
  }
  LORICA_RETURN_IF_ERROR(files->Remove(folder + kStaging));
  LORICA_RETURN_IF_ERROR(files->MakeFolder(folder + kStaging));
  LORICA_RETURN_IF_ERROR(files->MakeFolder(folder + kAdapters));
  // Before a manifest can name what lies in them.
  LORICA_RETURN_IF_ERROR(files->SyncFolder(folder));
  if (files->Exists(folder + kManifest)) {
    LORICA_ASSIGN_OR_RETURN(const std::string text,
                            files->Read(folder + kManifest, kLargestManifest));
    state->manifest_ = ReadManifest(text, damaged);
  }
  std::erase_if(state->manifest_.entries, [&](const auto& item) {
    const ManifestEntry& entry = item.second;
    if (!entry.path.empty() || files->Exists(state->FolderOf(entry.digest))) return false;
    damaged->push_back("adapter " + entry.name + " is dropped: its files, digest " + entry.digest +
                       ", are not in " + folder);
    return true;
  });
  LORICA_RETURN_IF_ERROR(state->CleanUp());
  return state;
}

std::unique_ptr<AdapterState> AdapterState::InMemory(FileSystem* files) {
  return std::unique_ptr<AdapterState>(new AdapterState(files, ""));
}

Status AdapterState::Settle(const std::string& folder) {
  if (!folder_.empty()) return OkStatus();
  if (folder.empty()) return Unavailable("uploads: no folder can be made for them");
  LORICA_RETURN_IF_ERROR(files_->MakeFolder(folder));
  LORICA_RETURN_IF_ERROR(files_->MakeFolder(folder + kStaging));
  LORICA_RETURN_IF_ERROR(files_->MakeFolder(folder + kAdapters));
  folder_ = folder;
  return OkStatus();
}

Status AdapterState::CleanUp() {
  LORICA_RETURN_IF_ERROR(files_->Remove(folder_ + kNextManifest));
  LORICA_ASSIGN_OR_RETURN(const std::vector<std::string> digests,
                          files_->List(folder_ + kAdapters));
  for (const std::string& digest : digests) {
    if (!IsUsed(digest)) RemoveFiles(digest);
  }
  return OkStatus();
}

std::string AdapterState::FolderOf(const std::string& digest) const {
  return folder_ + kAdapters + "/" + digest;
}

std::string AdapterState::staging_folder() const { return folder_ + kStaging; }

std::string AdapterState::NewStaging() {
  return staging_folder() + "/" + std::to_string(next_staging_++);
}

Status AdapterState::Stage(const std::string& staging, const std::vector<ArchiveFile>& upload) {
  LORICA_RETURN_IF_ERROR(files_->MakeFolder(staging));
  for (const ArchiveFile& file : upload) {
    LORICA_RETURN_IF_ERROR(CheckFileName(file.name));
    LORICA_ASSIGN_OR_RETURN(const std::unique_ptr<FileSystem::File> out,
                            files_->Create(staging + "/" + file.name));
    LORICA_RETURN_IF_ERROR(out->Append(file.bytes));
    LORICA_RETURN_IF_ERROR(out->Sync());
  }
  return files_->SyncFolder(staging);
}

Status AdapterState::Commit(const ManifestEntry& entry, const std::string& staging) {
  const std::string folder = FolderOf(entry.digest);
  if (!files_->Exists(folder)) {
    LORICA_RETURN_IF_ERROR(files_->Rename(staging, folder));
  }
  // Also of a folder that is there: the sync after its rename may be what failed the last time.
  LORICA_RETURN_IF_ERROR(files_->SyncFolder(folder_ + kAdapters));
  return Set(entry);
}

Status AdapterState::Set(const ManifestEntry& entry) {
  Manifest next = manifest_;
  next.entries[entry.name] = entry;
  next.unloaded.erase(entry.name);
  return Replace(std::move(next));
}

Status AdapterState::Forget(const std::string& name, AtStart at_start) {
  Manifest next = manifest_;
  next.entries.erase(name);
  if (at_start == AtStart::kUnloaded) next.unloaded.insert(name);
  return Replace(std::move(next));
}

Status AdapterState::Replace(Manifest next) {
  if (next == manifest_ && !manifest_unsynced_) return OkStatus();
  if (folder_.empty()) {
    manifest_ = std::move(next);
    return OkStatus();
  }
  const std::string text = WriteManifest(next);
  {
    LORICA_ASSIGN_OR_RETURN(const std::unique_ptr<FileSystem::File> out,
                            files_->Create(folder_ + kNextManifest));
    LORICA_RETURN_IF_ERROR(out->Append(std::as_bytes(std::span(text))));
    LORICA_RETURN_IF_ERROR(out->Sync());
  }
  LORICA_RETURN_IF_ERROR(files_->Rename(folder_ + kNextManifest, folder_ + kManifest));
  // The new one may be what a restart finds from here on, even if the sync fails.
  manifest_ = std::move(next);
  manifest_unsynced_ = true;
  LORICA_RETURN_IF_ERROR(files_->SyncFolder(folder_));
  manifest_unsynced_ = false;
  return OkStatus();
}

bool AdapterState::IsUsed(const std::string& digest) const {
  return std::any_of(manifest_.entries.begin(), manifest_.entries.end(), [&](const auto& item) {
    return item.second.path.empty() && item.second.digest == digest;
  });
}

void AdapterState::RemoveFiles(const std::string& digest) {
  if (folder_.empty()) return;
  // A failure leaves files that the next start removes.
  (void)files_->Remove(FolderOf(digest));
}

void AdapterState::RemoveStaging(const std::string& path) { (void)files_->Remove(path); }

}  // namespace lorica::server
