// What AdapterAdmin loads at start: the state folder, --lora-modules and --adapters.
#include <algorithm>
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
  for (const NamedPath& module : modules) {
    modules_.insert(module.name);
    LoadGiven(module);
  }
  if (options_.adapters_folder.empty()) return;
  Result<std::vector<NamedPath>> listed = ListAdapters(options_.adapters_folder);
  if (!listed.ok()) return LogError(listed.status().message());
  for (const NamedPath& adapter : *listed) {
    const Status inside = CheckInside(options_.adapters_folder, adapter.path);
    inside.ok() ? LoadGiven(adapter) : Refuse(adapter.name, inside);
    if (!options_.watch_folder) continue;
    const Result<lora::FileIdentity> identity = lora::ReadFileIdentity(adapter.path);
    if (!identity.ok()) continue;
    seen_[adapter.name] = {*identity, std::chrono::steady_clock::now(), true, false};
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
  for (const NamedPath& entry : *listed) ScanEntry(entry);
  UnloadGone(*listed);
}

void AdapterAdmin::ScanEntry(const NamedPath& entry) {
  const std::lock_guard lock(changing_);
  const Result<lora::FileIdentity> identity = lora::ReadFileIdentity(entry.path);
  if (!identity.ok()) return;
  const auto now = std::chrono::steady_clock::now();
  Seen& seen = seen_[entry.name];
  if (!(seen.identity == *identity)) {
    seen = {*identity, now, false, false};
    return;
  }
  seen.gone = false;
  if (seen.tried || now - seen.since < kSettled) return;
  seen.tried = true;
  const auto given = given_.find(entry.name);
  const bool taken = modules_.contains(entry.name) ||
                     (given != given_.end() && given->second != entry.path) ||
                     state_->manifest().entries.contains(entry.name) ||
                     state_->manifest().unloaded.contains(entry.name);
  if (taken || !CheckName(entry.name).ok()) return;
  given_.emplace(entry.name, entry.path);
  const auto take_in = [&]() -> Status {
    LORICA_RETURN_IF_ERROR(CheckInside(options_.adapters_folder, entry.path));
    LORICA_ASSIGN_OR_RETURN(Loaded loaded, Load(entry.path));
    return Publish(entry.name, std::move(loaded));
  };
  const Status status = take_in();
  status.ok() ? LogInfo("adapter " + entry.name + " is taken in") : Refuse(entry.name, status);
}

void AdapterAdmin::UnloadGone(const std::vector<NamedPath>& listed) {
  const std::lock_guard lock(changing_);
  const auto now = std::chrono::steady_clock::now();
  for (auto it = seen_.begin(); it != seen_.end();) {
    const std::string& name = it->first;
    Seen& seen = it->second;
    const auto place = std::lower_bound(
        listed.begin(), listed.end(), name,
        [](const NamedPath& entry, const std::string& wanted) { return entry.name < wanted; });
    const bool there = place != listed.end() && place->name == name;
    if (!there && !seen.gone) {
      seen.gone = true;
      seen.since = now;
    }
    if (there || now - seen.since < kSettled) {
      ++it;
      continue;
    }
    const bool its_own = given_.contains(name) && !modules_.contains(name) &&
                         !state_->manifest().entries.contains(name);
    if (its_own) {
      given_.erase(name);
      // Nothing is written: a name whose folder comes back is served again.
      if (options_.engine->registry().Remove(name).ok()) {
        LogInfo("adapter " + name + " is unloaded: its files are gone");
      }
      options_.api->KeepAdapterDefaults(name, "");
      MovePin(name);
    }
    it = seen_.erase(it);
  }
}

}  // namespace lorica::server
