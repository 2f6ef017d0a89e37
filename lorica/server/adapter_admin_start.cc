// What AdapterAdmin loads at start: the state folder, --lora-modules and --adapters.
#include <chrono>
#include <utility>

#include "lorica/base/log.h"
#include "lorica/server/adapter_admin.h"

namespace lorica::server {
namespace {

// How long an entry's files have to be the same before it counts as written.
constexpr std::chrono::seconds kSettled(1);

}  // namespace

void AdapterAdmin::Refuse(const std::string& name, const Status& reason) {
  LogError("adapter " + name + " is refused: " + reason.message());
  options_.engine->registry().Refuse(name, reason);
}

void AdapterAdmin::LoadAtStart(const std::vector<NamedPath>& modules) {
  const std::lock_guard lock(changing_);
  LoadFromState();
  for (const NamedPath& module : modules) LoadGiven(module);
  if (options_.adapters_folder.empty()) return;
  Result<std::vector<NamedPath>> listed = ListAdapters(options_.adapters_folder);
  if (!listed.ok()) return LogError(listed.status().message());
  for (const NamedPath& adapter : *listed) {
    const Status inside = CheckInside(options_.adapters_folder, adapter.path);
    inside.ok() ? LoadGiven(adapter) : Refuse(adapter.name, inside);
    const Result<lora::FileIdentity> identity = lora::ReadFileIdentity(adapter.path);
    if (identity.ok()) seen_[adapter.name] = {*identity, std::chrono::steady_clock::now(), true};
  }
}

void AdapterAdmin::LoadFromState() {
  for (const auto& item : state_->manifest().entries) {
    const std::string& name = item.first;
    const auto& entry = item.second;
    const std::string path = entry.path.empty() ? state_->FolderOf(entry.digest) : entry.path;
    const auto load = [&]() -> Status {
      LORICA_ASSIGN_OR_RETURN(Loaded loaded, Load(path));
      if (loaded.adapter->digest() != entry.digest) {
        return FailedPrecondition("its files changed: expected digest " + entry.digest +
                                  ", found " + loaded.adapter->digest());
      }
      return Publish(name, std::move(loaded));
    };
    const Status status = load();
    if (!status.ok()) {
      Refuse(name, status);
    } else if (entry.pinned) {
      const lora::AdapterHold adapter = Current(name);
      const Status pin = options_.engine->tiers().Pin(adapter);
      pin.ok() ? (void)(pinned_[name] = adapter) : LogError(name + ": " + pin.message());
    }
  }
}

void AdapterAdmin::LoadGiven(const NamedPath& given) {
  if (state_->manifest().unloaded.contains(given.name)) {
    given_.emplace(given.name, given.path);
    return LogInfo("adapter " + given.name + " stays unloaded until it is loaded again");
  }
  const bool by_state = state_->manifest().entries.contains(given.name);
  if (!given_.emplace(given.name, given.path).second || options_.api->IsBaseName(given.name) ||
      by_state) {
    return LogError("adapter " + given.name + " at " + given.path +
                    " is refused: the name is taken; the first of a name stays");
  }
  Result<Loaded> loaded = Load(given.path);
  if (!loaded.ok()) return Refuse(given.name, loaded.status());
  for (const std::string& warning : loaded->warnings) {
    LogWarning("adapter " + given.name + ": " + warning);
  }
  const Status status = Publish(given.name, *std::move(loaded));
  if (!status.ok()) Refuse(given.name, status);
}

void AdapterAdmin::ScanFolder() {
  const Result<std::vector<NamedPath>> listed = ListAdapters(options_.adapters_folder);
  if (!listed.ok()) return;
  for (const NamedPath& entry : *listed) {
    const std::lock_guard lock(changing_);
    const Result<lora::FileIdentity> identity = lora::ReadFileIdentity(entry.path);
    if (!identity.ok()) continue;
    const auto now = std::chrono::steady_clock::now();
    Seen& seen = seen_[entry.name];
    if (!(seen.identity == *identity)) {
      seen = {*identity, now, false};
      continue;
    }
    if (seen.tried || now - seen.since < kSettled) continue;
    seen.tried = true;
    const auto given = given_.find(entry.name);
    const bool taken = (given != given_.end() && given->second != entry.path) ||
                       state_->manifest().entries.contains(entry.name) ||
                       state_->manifest().unloaded.contains(entry.name);
    if (taken || !CheckName(entry.name).ok()) continue;
    given_.emplace(entry.name, entry.path);
    const auto take_in = [&]() -> Status {
      LORICA_RETURN_IF_ERROR(CheckInside(options_.adapters_folder, entry.path));
      LORICA_ASSIGN_OR_RETURN(Loaded loaded, Load(entry.path));
      return Publish(entry.name, std::move(loaded));
    };
    const Status status = take_in();
    status.ok() ? LogInfo("adapter " + entry.name + " is taken in") : Refuse(entry.name, status);
  }
}

}  // namespace lorica::server
