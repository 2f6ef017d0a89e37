// AdapterState: what survives a restart: uploaded adapters, each a folder named by its digest, and
// a manifest of names. A change is durable when its call returns: files synced, the folder renamed
// into place and its parent synced, then the manifest written beside itself, synced, renamed and
// its folder synced. A crash at any point leaves the manifest of before or of after, and Open
// removes what no entry names. One thread at a time; AdapterAdmin serialises.
//
//   DIR/manifest             a line an entry: a checksum and a JSON object
//   DIR/adapters/DIGEST/     the files of an upload
//   DIR/staging/             uploads on their way; emptied by Open
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lorica/base/file_system.h"
#include "lorica/base/status.h"
#include "lorica/server/archive_file.h"

namespace lorica::server {

struct ManifestEntry {
  std::string name;
  std::string digest;
  std::string path;  // of the user's own files; empty: the uploaded ones
  bool pinned = false;
  bool operator==(const ManifestEntry&) const = default;
};

struct Manifest {
  std::map<std::string, ManifestEntry> entries;  // by name
  std::set<std::string> unloaded;                // names that stay unloaded until loaded again
  bool operator==(const Manifest&) const = default;
};

std::string WriteManifest(const Manifest& manifest);
// Damaged lines are left out and named in `damaged`, one sentence each.
Manifest ReadManifest(std::string_view text, std::vector<std::string>* damaged);

class AdapterState {
 public:
  // Makes the folder if need be, reads the manifest and cleans up. Entries whose files are gone are
  // dropped and named in `damaged`.
  static Result<std::unique_ptr<AdapterState>> Open(FileSystem* files, const std::string& folder,
                                                    std::vector<std::string>* damaged);

  // One that nothing is written for, until Settle.
  static std::unique_ptr<AdapterState> InMemory(FileSystem* files);
  // Makes the folder if it has none yet, and writes there from now on. UNAVAILABLE for "".
  Status Settle(const std::string& folder);

  const Manifest& manifest() const { return manifest_; }
  std::string FolderOf(const std::string& digest) const;
  std::string staging_folder() const;
  // A path that nobody uses, in staging.
  std::string NewStaging();

  // Writes and syncs the files of an upload into the new folder `staging`.
  Status Stage(const std::string& staging, const std::vector<ArchiveFile>& upload);
  // Moves a staged folder into place, where its digest is not there yet, and publishes its entry.
  Status Commit(const ManifestEntry& entry, const std::string& staging);
  // Publishes an entry of the user's own files, or changes one.
  Status Set(const ManifestEntry& entry);
  // What a start does with a name that is forgotten: loads what it is then given for it, or leaves
  // it unloaded until it is loaded again.
  enum class AtStart : uint8_t { kAsGiven, kUnloaded };
  Status Forget(const std::string& name, AtStart at_start);
  // Whether an entry names the uploaded files of this digest.
  bool IsUsed(const std::string& digest) const;
  // Removes uploaded files that no entry names any more.
  void RemoveFiles(const std::string& digest);
  void RemoveStaging(const std::string& path);

 private:
  AdapterState(FileSystem* files, std::string folder) : files_(files), folder_(std::move(folder)) {}
  // Replaces the manifest on disk, then the one in memory.
  Status Replace(Manifest next);
  Status CleanUp();

  FileSystem* const files_;
  std::string folder_;  // empty: none yet
  Manifest manifest_;
  // Whether a crash may still bring an older one back: a sync has failed since.
  bool manifest_unsynced_ = false;
  uint64_t next_staging_ = 1;
};

}  // namespace lorica::server
