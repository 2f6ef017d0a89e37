#include <algorithm>

#include "lorica/formats/json.h"
#include "lorica/formats/sha256.h"
#include "lorica/server/adapter_state.h"
#include "lorica/server/json_writer.h"

namespace lorica::server {
namespace {

constexpr std::string_view kHead = R"({"lorica_manifest":1})";
constexpr size_t kChecksumDigits = 16;
constexpr size_t kDigestDigits = 64;
constexpr formats::JsonLimits kLineLimits{.bytes = 1 << 16, .depth = 2, .values = 16};

void AddLine(std::string_view json, std::string* text) {
  *text += formats::Sha256Hex(json).substr(0, kChecksumDigits);
  *text += ' ';
  *text += json;
  *text += '\n';
}

bool IsDigest(std::string_view text) {
  return text.size() == kDigestDigits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

Status ReadLine(std::string_view line, Manifest* manifest) {
  if (line.size() <= kChecksumDigits || line[kChecksumDigits] != ' ') {
    return InvalidArgument("expected a checksum and an object");
  }
  const std::string_view json = line.substr(kChecksumDigits + 1);
  if (formats::Sha256Hex(json).substr(0, kChecksumDigits) != line.substr(0, kChecksumDigits)) {
    return DataLoss("its checksum is wrong");
  }
  if (json == kHead) return OkStatus();
  LORICA_ASSIGN_OR_RETURN(const boost::json::value value, formats::ParseJson(json, kLineLimits));
  LORICA_ASSIGN_OR_RETURN(const formats::JsonObjectReader object,
                          formats::JsonObjectReader::Of(value, "entry"));
  if (object.Has("unloaded")) {
    LORICA_ASSIGN_OR_RETURN(std::string name, object.String("unloaded"));
    manifest->unloaded.insert(std::move(name));
    return OkStatus();
  }
  ManifestEntry entry;
  LORICA_ASSIGN_OR_RETURN(entry.name, object.String("name"));
  LORICA_ASSIGN_OR_RETURN(entry.digest, object.String("digest"));
  LORICA_ASSIGN_OR_RETURN(const std::optional<std::string> path, object.OptionalString("path"));
  LORICA_ASSIGN_OR_RETURN(entry.pinned, object.Bool("pinned"));
  entry.path = path.value_or("");
  // It becomes a part of a path.
  if (!IsDigest(entry.digest)) return object.Wrong("digest", "64 hex digits");
  if (!manifest->entries.emplace(entry.name, entry).second) {
    return InvalidArgument("\"" + entry.name + "\" is there twice");
  }
  return OkStatus();
}

}  // namespace

std::string WriteManifest(const Manifest& manifest) {
  std::string text;
  AddLine(kHead, &text);
  for (const auto& [name, entry] : manifest.entries) {
    JsonWriter json;
    json.BeginObject();
    json.Key("name").String(name);
    json.Key("digest").String(entry.digest);
    json.Key("path").StringOrNull(entry.path);
    json.Key("pinned").Bool(entry.pinned);
    json.EndObject();
    AddLine(json.Take(), &text);
  }
  for (const std::string& name : manifest.unloaded) {
    JsonWriter json;
    json.BeginObject();
    json.Key("unloaded").String(name);
    json.EndObject();
    AddLine(json.Take(), &text);
  }
  return text;
}

Manifest ReadManifest(std::string_view text, std::vector<std::string>* damaged) {
  Manifest manifest;
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    const Status status = ReadLine(line, &manifest);
    if (status.ok()) continue;
    // Its name, if that much can be read.
    const size_t name = line.find("\"name\":\"");
    std::string what = "manifest line " + std::to_string(number);
    if (name != std::string_view::npos) {
      const std::string_view rest = line.substr(name + 8);
      what +=
          " (" + formats::DescribeJson(boost::json::string(rest.substr(0, rest.find('"')))) + ")";
    }
    damaged->push_back(what + " is dropped: " + status.message());
  }
  return manifest;
}

}  // namespace lorica::server
