#include "lorica/lora/file_identity.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

namespace lorica::lora {
namespace {

void Add(const std::string& name, const struct stat& facts, formats::Sha256* hash) {
  hash->UpdateSized(name);
  hash->UpdateU64(facts.st_dev);
  hash->UpdateU64(facts.st_ino);
  hash->UpdateU64(static_cast<uint64_t>(facts.st_size));
  for (const timespec& time : {facts.st_mtim, facts.st_ctim}) {
    hash->UpdateU64(static_cast<uint64_t>(time.tv_sec));
    hash->UpdateU64(static_cast<uint64_t>(time.tv_nsec));
  }
}

Status Failed(const std::string& path) {
  const std::string message = path + ": " + std::strerror(errno);
  return errno == ENOENT || errno == ENOTDIR ? NotFound(message) : Unavailable(message);
}

}  // namespace

Result<FileIdentity> ReadFileIdentity(const std::string& path) {
  struct stat facts;
  if (stat(path.c_str(), &facts) != 0) return Failed(path);
  formats::Sha256 hash;
  if (!S_ISDIR(facts.st_mode)) {
    Add("", facts, &hash);
    return FileIdentity{hash.Finish()};
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()), closedir);
  if (folder == nullptr) return Failed(path);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(folder.get())) names.emplace_back(entry->d_name);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    // A link that leads nowhere is no file; what needs it will say so.
    if (stat((path + "/" + name).c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) continue;
    Add(name, facts, &hash);
  }
  return FileIdentity{hash.Finish()};
}

}  // namespace lorica::lora
