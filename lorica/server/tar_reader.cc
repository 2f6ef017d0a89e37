#include "lorica/server/tar_reader.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace lorica::server {
namespace {

constexpr size_t kBlock = 512;

// POSIX 1003.1, ustar interchange format: offset and length of each field.
struct Field {
  size_t offset;
  size_t size;
};
constexpr Field kName{0, 100};
constexpr Field kSize{124, 12};
constexpr Field kChecksum{148, 8};
constexpr size_t kType = 156;
constexpr Field kMagic{257, 5};
constexpr Field kPrefix{345, 155};

// A field up to its first NUL.
std::string_view Text(std::span<const std::byte> header, Field field) {
  const std::string_view text(reinterpret_cast<const char*>(header.data()) + field.offset,
                              field.size);
  return text.substr(0, text.find('\0'));
}

// Octal digits, led and followed by spaces.
std::optional<uint64_t> Octal(std::span<const std::byte> header, Field field) {
  std::string_view text = Text(header, field);
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  if (text.empty()) return std::nullopt;
  uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '7') return std::nullopt;
    value = value * 8 + static_cast<uint64_t>(c - '0');
  }
  return value;
}

bool ChecksumHolds(std::span<const std::byte> header) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    const bool in_field = i >= kChecksum.offset && i < kChecksum.offset + kChecksum.size;
    sum += in_field ? ' ' : static_cast<uint8_t>(header[i]);
  }
  return Octal(header, kChecksum) == sum;
}

// "./a/b" as {"a", "b"}.
Result<std::vector<std::string_view>> Parts(std::string_view path) {
  if (path.starts_with('/'))
    return InvalidArgument("tar: expected relative paths, found one from /");
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    path = slash == std::string_view::npos ? "" : path.substr(slash + 1);
    if (part.empty() || part == ".") continue;
    LORICA_RETURN_IF_ERROR(CheckFileName(part));
    parts.push_back(part);
  }
  return parts;
}

// A pax header may rename or resize what follows; those that do are not what tar makes of a folder
// of adapters.
Status CheckPax(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const std::string_view key : {" path=", " size=", " linkpath=", " GNU.sparse"}) {
    if (text.find(key) != std::string_view::npos) {
      return InvalidArgument("tar: expected short names and plain files, found a pax header with" +
                             std::string(key));
    }
  }
  return OkStatus();
}

}  // namespace

bool LooksLikeTar(std::span<const std::byte> bytes) {
  return bytes.size() >= kBlock && Text(bytes.first(kBlock), kMagic) == "ustar";
}

Result<std::vector<ArchiveFile>> ReadTar(std::span<const std::byte> bytes) {
  std::vector<ArchiveFile> files;
  std::optional<std::string> folder;  // the one that all files are in; empty: the root
  for (size_t entry = 0;; ++entry) {
    if (bytes.size() < kBlock) return DataLoss("tar: ends before its end mark");
    const std::span<const std::byte> header = bytes.first(kBlock);
    bytes = bytes.subspan(kBlock);
    if (std::all_of(header.begin(), header.end(), [](std::byte b) { return b == std::byte{0}; })) {
      break;
    }
    if (entry >= 4 * kMostArchiveFiles) return OutOfRange("tar: too many entries");
    if (!ChecksumHolds(header)) return InvalidArgument("tar: the checksum of an entry is wrong");
    const std::optional<uint64_t> size = Octal(header, kSize);
    if (!size.has_value()) return InvalidArgument("tar: an entry's size is no octal number");
    const char type = static_cast<char>(header[kType]);
    const bool has_bytes = type == '0' || type == '\0' || type == 'x' || type == 'g';
    const uint64_t stored = has_bytes ? *size : 0;
    if (stored > bytes.size()) {
      return DataLoss("tar: an entry has " + std::to_string(*size) + " bytes and " +
                      std::to_string(bytes.size()) + " are left");
    }
    const std::span<const std::byte> content = bytes.first(stored);
    const size_t padded = (stored + kBlock - 1) / kBlock * kBlock;
    bytes = bytes.subspan(std::min(padded, bytes.size()));
    if (type == 'x' || type == 'g') {
      LORICA_RETURN_IF_ERROR(CheckPax(content));
      continue;
    }
    std::string path(Text(header, kName));
    const std::string_view prefix = Text(header, kPrefix);
    if (!prefix.empty() && Text(header, kMagic) == "ustar") path = std::string(prefix) + "/" + path;
    LORICA_ASSIGN_OR_RETURN(const std::vector<std::string_view> parts, Parts(path));
    if (type == '5') {
      if (parts.size() > 1)
        return InvalidArgument("tar: expected one folder, found one in another");
      continue;
    }
    if (type != '0' && type != '\0') {
      return InvalidArgument(std::string("tar: expected regular files and folders, found a link, a "
                                         "device or another entry of type '") +
                             (type >= 0x20 && type < 0x7f ? type : '?') + "'");
    }
    if (parts.empty() || parts.size() > 2) {
      return InvalidArgument("tar: expected files in the root or in one folder");
    }
    const std::string in(parts.size() == 2 ? parts.front() : "");
    if (folder.has_value() && *folder != in) {
      return InvalidArgument("tar: expected all files in one folder, found two");
    }
    folder = in;
    LORICA_RETURN_IF_ERROR(AddArchiveFile({std::string(parts.back()), content}, &files));
  }
  return files;
}

}  // namespace lorica::server
