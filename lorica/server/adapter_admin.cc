#include "lorica/server/adapter_admin.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "lorica/base/log.h"
#include "lorica/base/mapped_file.h"
#include "lorica/formats/json.h"
#include "lorica/lora/adapter_loader.h"
#include "lorica/server/multipart_reader.h"
#include "lorica/server/tar_reader.h"

namespace lorica::server {
namespace {

constexpr size_t kLongestName = 200;

ApiError MakeError(int status, std::string message) {
  ApiError error;
  error.http_status = status;
  error.message = std::move(message);
  return error;
}

// What an adapter's folder needs; README and the like are left behind.
bool IsAdapterFile(std::string_view name) {
  return name.ends_with(".json") || name.ends_with(".safetensors");
}

// The last part of a path or a hub's name, in lower case.
std::string ModelName(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  std::string name(path.substr(path.rfind('/') + 1));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

// A warning if the adapter says that it was trained on another model; equal shapes do not show it.
std::string OtherBase(const std::string& path, const std::string& served) {
  const Result<boost::json::value> config = formats::ReadJsonFile(path + "/adapter_config.json");
  if (!config.ok() || !config->is_object()) return "";
  const boost::json::value* base = config->as_object().if_contains("base_model_name_or_path");
  if (base == nullptr || !base->is_string() || base->as_string().empty()) return "";
  const std::string_view trained(base->as_string().data(), base->as_string().size());
  // A file's name goes on with its type, "-Q4_1" and the like.
  const std::string here = ModelName(served);
  const std::string there = ModelName(trained);
  if (here.starts_with(there) || there.starts_with(here)) return "";
  return "base_model_name_or_path is " + formats::DescribeJson(*base) + ", served is \"" + served +
         "\": its shapes fit, its weights may not";
}

}  // namespace

Result<std::unique_ptr<AdapterAdmin>> AdapterAdmin::Open(const Options& options,
                                                         std::unique_ptr<FileSystem> files) {
  std::unique_ptr<AdapterAdmin> admin(new AdapterAdmin(options, std::move(files)));
  std::vector<std::string> damaged;
  if (options.state_folder.empty()) {
    admin->state_ = AdapterState::InMemory(admin->files_.get());
  } else {
    LORICA_ASSIGN_OR_RETURN(
        admin->state_, AdapterState::Open(admin->files_.get(), options.state_folder, &damaged));
    admin->body_folder_ = admin->state_->staging_folder();
  }
  for (const std::string& line : damaged) LogError(line);
  return admin;
}

AdapterAdmin::~AdapterAdmin() {
  for (auto& [name, adapter] : pinned_) options_.engine->tiers().Unpin(adapter);
  if (!own_folder_.empty()) (void)files_->Remove(own_folder_);
}

Result<AdapterAdmin::Loaded> AdapterAdmin::Load(const std::string& path) const {
  Loaded loaded;
  loaded.source.path = path;
  LORICA_ASSIGN_OR_RETURN(loaded.source.identity, lora::ReadFileIdentity(path));
  LORICA_ASSIGN_OR_RETURN(
      loaded.adapter, lora::LoadAdapter(path, *options_.model, options_.load, &loaded.warnings));
  LORICA_ASSIGN_OR_RETURN(loaded.defaults, ReadGenerationDefaults(path));
  LORICA_RETURN_IF_ERROR(options_.engine->adapters().CheckFits(*loaded.adapter));
  const std::string other = OtherBase(path, options_.model_name);
  if (!other.empty()) loaded.warnings.push_back(other);
  return loaded;
}

Status AdapterAdmin::Publish(const std::string& name, Loaded loaded) {
  options_.api->SetAdapterDefaults(name, loaded.adapter->digest(), std::move(loaded.defaults));
  const Status status =
      options_.engine->PublishAdapter(name, loaded.source, std::move(loaded.adapter));
  const lora::AdapterHold current = Current(name);
  options_.api->KeepAdapterDefaults(name, current == nullptr ? "" : current->digest);
  if (status.ok()) MovePin(name);
  return status;
}

Status AdapterAdmin::CheckName(const std::string& name) const {
  const bool plain = !name.empty() && name.size() <= kLongestName && name.front() != '.' &&
                     std::none_of(name.begin(), name.end(), [](unsigned char c) {
                       return c < 0x21 || c >= 0x7f || c == '/' || c == '\\' || c == '"';
                     });
  if (!plain) {
    return InvalidArgument("adapter name: expected 1 to " + std::to_string(kLongestName) +
                           " letters, digits and marks other than / \\ and \", not led by a dot");
  }
  if (options_.api->IsBaseName(name)) {
    return InvalidArgument("adapter name: \"" + name + "\" is the base model's");
  }
  return OkStatus();
}

lora::AdapterHold AdapterAdmin::Current(const std::string& name) const {
  const Result<lora::AdapterRef> version = options_.engine->registry().Acquire(name);
  return version.ok() ? version->version().adapter() : nullptr;
}

ApiResult<std::string> AdapterAdmin::CheckMatch(const std::string& name,
                                                const std::string& if_match) const {
  if (if_match.empty()) return std::string();
  const lora::AdapterHold current = Current(name);
  std::string expected = if_match;
  std::erase(expected, '"');
  if (current != nullptr && (expected == "*" || expected == current->digest)) return std::string();
  return MakeError(412, "If-Match: expected digest " + expected + ", found " +
                            (current == nullptr ? "no adapter of this name" : current->digest));
}

void AdapterAdmin::MovePin(const std::string& name) {
  const auto found = pinned_.find(name);
  if (found == pinned_.end()) return;
  const lora::AdapterHold current = Current(name);
  if (current == found->second) return;
  options_.engine->tiers().Unpin(found->second);
  if (current != nullptr && options_.engine->tiers().Pin(current).ok()) {
    found->second = current;
  } else {
    pinned_.erase(found);
  }
}

void AdapterAdmin::SweepLeftovers() {
  std::erase_if(leftovers_, [&](const Leftover& leftover) {
    if (!leftover.holder.expired()) return false;
    if (!state_->IsUsed(leftover.digest)) state_->RemoveFiles(leftover.digest);
    return true;
  });
}

const std::string& AdapterAdmin::OwnFolder() {
  std::call_once(own_folder_once_, [this] {
    std::string pattern = "/tmp/lorica-uploads-XXXXXX";
    if (mkdtemp(pattern.data()) != nullptr) own_folder_ = body_folder_ = pattern;
  });
  return own_folder_;
}

std::string AdapterAdmin::NewBodyPath() {
  // Where it cannot be made, writing to the path fails and tells why.
  if (options_.state_folder.empty()) OwnFolder();
  return body_folder_ + "/body-" + std::to_string(next_body_.fetch_add(1));
}

void AdapterAdmin::RemoveBody(const std::string& path) { (void)files_->Remove(path); }

Result<std::vector<ArchiveFile>> AdapterAdmin::ReadUpload(const Upload& upload,
                                                          std::span<const std::byte> bytes) const {
  const std::string boundary = MultipartBoundary(upload.content_type);
  Result<std::vector<ArchiveFile>> files = [&]() -> Result<std::vector<ArchiveFile>> {
    if (!boundary.empty()) return ReadMultipart(bytes, boundary);
    if (LooksLikeTar(bytes)) return ReadTar(bytes);
    return InvalidArgument("upload: expected multipart/form-data or a tar archive");
  }();
  if (!files.ok()) return files;
  std::erase_if(*files, [](const ArchiveFile& file) { return !IsAdapterFile(file.name); });
  if (files->empty()) return InvalidArgument("upload: found no file of an adapter in it");
  return files;
}

ApiResult<std::string> AdapterAdmin::Put(const Upload& upload) {
  const Status name_ok = CheckName(upload.name);
  if (!name_ok.ok()) return ToApiError(name_ok, "name");
  const std::lock_guard lock(changing_);
  SweepLeftovers();
  ApiResult<std::string> match = CheckMatch(upload.name, upload.if_match);
  if (std::holds_alternative<ApiError>(match)) return match;
  if (options_.state_folder.empty()) {
    const Status settled = state_->Settle(OwnFolder());
    if (!settled.ok()) return ToApiError(settled);
  }
  const std::string staging = state_->NewStaging();
  const lora::AdapterHold replaced = Current(upload.name);
  Loaded loaded;
  const auto take_in = [&]() -> Status {
    LORICA_ASSIGN_OR_RETURN(const MappedFile body,
                            MappedFile::Open(upload.body_path, MappedFile::Mode::kMap));
    LORICA_ASSIGN_OR_RETURN(const std::vector<ArchiveFile> files, ReadUpload(upload, body.bytes()));
    LORICA_RETURN_IF_ERROR(state_->Stage(staging, files));
    LORICA_ASSIGN_OR_RETURN(loaded, Load(staging));
    ManifestEntry entry;
    entry.name = upload.name;
    entry.digest = loaded.adapter->digest();
    entry.pinned = pinned_.contains(upload.name);
    LORICA_RETURN_IF_ERROR(state_->Commit(entry, staging));
    loaded.source.path = state_->FolderOf(entry.digest);
    LORICA_ASSIGN_OR_RETURN(loaded.source.identity, lora::ReadFileIdentity(loaded.source.path));
    return Publish(upload.name, {loaded.adapter, loaded.source, loaded.defaults, {}});
  };
  const Status status = take_in();
  state_->RemoveStaging(staging);
  if (!status.ok()) {
    // The client knows no path of ours.
    std::string message = status.message();
    for (size_t at; (at = message.find(staging)) != std::string::npos;) {
      message.replace(at, staging.size(), "upload");
    }
    return ToApiError(Status(status.code(), message));
  }
  if (replaced != nullptr && replaced->digest != loaded.adapter->digest()) {
    leftovers_.push_back({replaced->digest, replaced});
  }
  JsonWriter json;
  json.BeginObject();
  json.Key("name").String(upload.name);
  json.Key("digest").String(loaded.adapter->digest());
  json.Key("max_rank").Int(loaded.adapter->max_rank());
  json.Key("bytes").Int(loaded.adapter->bytes());
  json.Key("tile_bytes").Int(options_.engine->adapters().TileBytes(*loaded.adapter));
  json.Key("ranks").BeginArray();
  std::set<int32_t> ranks;
  std::set<std::string> modules;
  const lora::SiteSpace sites = options_.model->sites();
  for (const lora::SiteFactors& factors : loaded.adapter->sites()) {
    ranks.insert(factors.rank);
    if (sites.IsLinear(factors.site)) {
      modules.emplace(lora::ProjectionName(sites.ProjectionOf(factors.site)));
    }
  }
  for (const int32_t rank : ranks) json.Int(rank);
  json.EndArray();
  json.Key("modules").BeginArray();
  for (const std::string& module : modules) json.String(module);
  json.EndArray();
  json.Key("warnings").BeginArray();
  for (const std::string& warning : loaded.warnings) json.String(warning);
  json.EndArray();
  json.EndObject();
  return json.Take();
}

Status AdapterAdmin::Remove(const std::string& name) {
  SweepLeftovers();
  const lora::AdapterHold removed = Current(name);
  const auto& refused = options_.engine->registry().Refused();
  const bool known =
      removed != nullptr || std::any_of(refused.begin(), refused.end(),
                                        [&](const auto& item) { return item.first == name; });
  if (!known) return NotFound("no adapter is named '" + name + "'");
  LORICA_RETURN_IF_ERROR(state_->Forget(name, given_.contains(name)
                                                  ? AdapterState::AtStart::kUnloaded
                                                  : AdapterState::AtStart::kAsGiven));
  LORICA_RETURN_IF_ERROR(options_.engine->registry().Remove(name));
  options_.api->KeepAdapterDefaults(name, "");
  MovePin(name);
  if (removed != nullptr) leftovers_.push_back({removed->digest, removed});
  return OkStatus();
}

ApiResult<std::string> AdapterAdmin::Delete(const std::string& name, const std::string& if_match) {
  const std::lock_guard lock(changing_);
  ApiResult<std::string> match = CheckMatch(name, if_match);
  if (std::holds_alternative<ApiError>(match)) return match;
  const Status status = Remove(name);
  if (!status.ok()) return ToApiError(status, "name");
  JsonWriter json;
  json.BeginObject();
  json.Key("name").String(name);
  json.Key("deleted").Bool(true);
  json.EndObject();
  return json.Take();
}

ApiResult<std::string> AdapterAdmin::Pin(const std::string& name) {
  const std::lock_guard lock(changing_);
  const lora::AdapterHold adapter = Current(name);
  if (adapter != nullptr && !pinned_.contains(name)) {
    const Status pin = options_.engine->tiers().Pin(adapter);
    if (!pin.ok()) return ToApiError(pin);
    pinned_[name] = adapter;
  }
  return AnswerPin(name, adapter);
}

ApiResult<std::string> AdapterAdmin::Unpin(const std::string& name) {
  const std::lock_guard lock(changing_);
  const lora::AdapterHold adapter = Current(name);
  if (adapter != nullptr && pinned_.erase(name) > 0) options_.engine->tiers().Unpin(adapter);
  return AnswerPin(name, adapter);
}

ApiResult<std::string> AdapterAdmin::AnswerPin(const std::string& name,
                                               const lora::AdapterHold& adapter) {
  if (adapter == nullptr) {
    return ToApiError(options_.engine->registry().Acquire(name).status(), "name");
  }
  const auto entry = state_->manifest().entries.find(name);
  if (entry != state_->manifest().entries.end()) {
    ManifestEntry changed = entry->second;
    changed.pinned = pinned_.contains(name);
    const Status status = state_->Set(changed);
    if (!status.ok()) return ToApiError(status);
  }
  JsonWriter json;
  WriteAdapter(name, adapter, &json);
  return json.Take();
}

ApiResult<std::string> AdapterAdmin::LoadByPath(std::string_view body) {
  std::string name;
  std::string path;
  bool inplace = false;
  const auto parse = [&]() -> Status {
    LORICA_ASSIGN_OR_RETURN(const boost::json::value value, formats::ParseJson(body));
    LORICA_ASSIGN_OR_RETURN(const formats::JsonObjectReader object,
                            formats::JsonObjectReader::Of(value, "request"));
    LORICA_ASSIGN_OR_RETURN(name, object.String("lora_name"));
    LORICA_ASSIGN_OR_RETURN(path, object.String("lora_path"));
    LORICA_ASSIGN_OR_RETURN(const std::optional<bool> flag, object.OptionalBool("load_inplace"));
    inplace = flag.value_or(false);
    return CheckName(name);
  };
  const Status parsed = parse();
  if (!parsed.ok()) return ToApiError(parsed);
  const std::string& root = options_.adapters_folder;
  if (root.empty() || path.empty() || path.find('\0') != std::string::npos) {
    return MakeError(400, root.empty() ? "lora_path: the server has no --adapters folder"
                                       : "lora_path: expected a path, found none");
  }
  if (!path.starts_with('/')) path = root + "/" + path;
  const std::lock_guard lock(changing_);
  SweepLeftovers();
  const Status inside = CheckInside(root, path);
  if (!inside.ok()) {
    // One answer for what is outside and what is not there, and no path but the client's.
    return MakeError(404, "lora_path: no adapter there inside the --adapters folder");
  }
  const lora::AdapterHold replaced = Current(name);
  if (replaced != nullptr && !inplace) {
    return MakeError(400, "adapter '" + name + "' is loaded already; load_inplace replaces it");
  }
  const auto take_in = [&]() -> Status {
    LORICA_ASSIGN_OR_RETURN(Loaded loaded, Load(path));
    ManifestEntry entry;
    entry.name = name;
    entry.digest = loaded.adapter->digest();
    entry.path = std::filesystem::absolute(path).string();
    entry.pinned = pinned_.contains(name);
    LORICA_RETURN_IF_ERROR(state_->Set(entry));
    return Publish(name, std::move(loaded));
  };
  const Status status = take_in();
  if (!status.ok()) return ToApiError(status);
  if (replaced != nullptr) leftovers_.push_back({replaced->digest, replaced});
  return "Success: LoRA adapter '" + name + "' added successfully.";
}

ApiResult<std::string> AdapterAdmin::UnloadByName(std::string_view body) {
  std::string name;
  const auto parse = [&]() -> Status {
    LORICA_ASSIGN_OR_RETURN(const boost::json::value value, formats::ParseJson(body));
    LORICA_ASSIGN_OR_RETURN(const formats::JsonObjectReader object,
                            formats::JsonObjectReader::Of(value, "request"));
    LORICA_ASSIGN_OR_RETURN(name, object.String("lora_name"));
    return OkStatus();
  };
  const Status parsed = parse();
  if (!parsed.ok()) return ToApiError(parsed);
  const std::lock_guard lock(changing_);
  const Status status = Remove(name);
  if (!status.ok()) return ToApiError(status, "lora_name");
  return "Success: LoRA adapter '" + name + "' removed successfully.";
}

}  // namespace lorica::server
