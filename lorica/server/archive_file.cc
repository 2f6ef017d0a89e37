#include "lorica/server/archive_file.h"

#include <algorithm>
#include <utility>

namespace lorica::server {
namespace {

constexpr size_t kLongestName = 255;
constexpr size_t kShownBytes = 60;

// A name as a message may show it: what a client sent may hold anything.
std::string Shown(std::string_view name) {
  std::string shown;
  for (const char c : name.substr(0, kShownBytes)) {
    shown += c >= 0x20 && c < 0x7f ? c : '?';
  }
  return "\"" + shown + "\"";
}

}  // namespace

Status CheckFileName(std::string_view name) {
  const bool plain = !name.empty() && name.size() <= kLongestName && name != "." && name != ".." &&
                     std::none_of(name.begin(), name.end(), [](unsigned char c) {
                       return c < 0x20 || c >= 0x7f || c == '/' || c == '\\';
                     });
  if (plain) return OkStatus();
  return InvalidArgument("upload: expected plain file names, found " + Shown(name));
}

Status AddArchiveFile(ArchiveFile file, std::vector<ArchiveFile>* files) {
  LORICA_RETURN_IF_ERROR(CheckFileName(file.name));
  if (files->size() >= kMostArchiveFiles) {
    return OutOfRange("upload: expected at most " + std::to_string(kMostArchiveFiles) +
                      " files, found more");
  }
  for (const ArchiveFile& other : *files) {
    if (other.name == file.name) {
      return InvalidArgument("upload: expected each file once, found " + Shown(file.name) +
                             " twice");
    }
  }
  files->push_back(std::move(file));
  return OkStatus();
}

}  // namespace lorica::server
