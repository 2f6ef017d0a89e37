#include "lorica/server/multipart_reader.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace lorica::server {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr size_t kLongestBoundary = 70;  // RFC 2046
constexpr size_t kLongestHead = 8192;    // of one part

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

// `key="value"` or `key=value` among the parameters of a header; empty where it is not.
std::string Parameter(std::string_view header, std::string_view key) {
  const std::string lower = Lower(header);
  for (size_t at = 0; (at = lower.find(';', at)) != std::string::npos;) {
    at = lower.find_first_not_of(" \t", at + 1);
    if (at == std::string::npos) break;
    if (lower.compare(at, key.size(), key) != 0 || lower[at + key.size()] != '=') continue;
    std::string_view value = header.substr(at + key.size() + 1);
    if (value.starts_with('"')) {
      value.remove_prefix(1);
      return std::string(value.substr(0, value.find('"')));
    }
    return std::string(value.substr(0, value.find_first_of("; \t")));
  }
  return "";
}

// The file's name by the part's head.
Result<std::string> NameOf(std::string_view head) {
  while (!head.empty()) {
    const size_t end = std::min(head.find(kLineEnd), head.size());
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(head.size(), end + kLineEnd.size()));
    if (!Lower(line).starts_with("content-disposition:")) continue;
    std::string name = Parameter(line, "filename");
    if (name.empty()) name = Parameter(line, "name");
    if (!name.empty()) return name;
  }
  return InvalidArgument("multipart: expected a name in each part's Content-Disposition");
}

}  // namespace

std::string MultipartBoundary(std::string_view content_type) {
  if (!Lower(content_type).starts_with("multipart/form-data")) return "";
  std::string boundary = Parameter(content_type, "boundary");
  if (boundary.size() > kLongestBoundary) boundary.clear();
  return boundary;
}

Result<std::vector<ArchiveFile>> ReadMultipart(std::span<const std::byte> bytes,
                                               std::string_view boundary) {
  if (boundary.empty()) return InvalidArgument("multipart: expected a boundary");
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string delimiter = "--" + std::string(boundary);
  const std::string next = std::string(kLineEnd) + delimiter;
  if (text.starts_with(delimiter)) {
    text.remove_prefix(delimiter.size());
  } else {
    const size_t first = text.find(next);
    if (first == std::string_view::npos) return DataLoss("multipart: found no boundary");
    text.remove_prefix(first + next.size());
  }
  std::vector<ArchiveFile> files;
  while (!text.starts_with("--")) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    if (text.empty()) return DataLoss("multipart: ends before its last boundary");
    if (!text.starts_with(kLineEnd)) {
      return InvalidArgument("multipart: expected a line's end after a boundary");
    }
    // The blank line that ends the head may follow at once.
    const size_t blank = text.substr(0, kLongestHead).find("\r\n\r\n");
    if (blank == std::string_view::npos) {
      return text.size() > kLongestHead ? InvalidArgument("multipart: a part's head has no end")
                                        : DataLoss("multipart: ends inside a part's head");
    }
    const std::string_view head =
        blank == 0 ? std::string_view() : text.substr(kLineEnd.size(), blank - kLineEnd.size());
    LORICA_ASSIGN_OR_RETURN(std::string name, NameOf(head));
    text.remove_prefix(blank + 4);
    const size_t end = text.find(next);
    if (end == std::string_view::npos) return DataLoss("multipart: ends inside a part");
    LORICA_RETURN_IF_ERROR(
        AddArchiveFile({std::move(name), std::as_bytes(std::span(text.data(), end))}, &files));
    text.remove_prefix(end + next.size());
  }
  return files;
}

}  // namespace lorica::server
