// What AdapterAdmin loads at start: the state folder, --lora-modules and --adapters.
#include <utility>

#include "lorica/base/log.h"
#include "lorica/server/adapter_admin.h"

namespace lorica::server {

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
  }
}

void AdapterAdmin::LoadFromState() {
  for (const auto& [name, entry] : state_->manifest().entries) {
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

}  // namespace lorica::server
