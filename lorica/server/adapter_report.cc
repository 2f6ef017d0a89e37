// What AdapterAdmin tells of adapters, as JSON.
#include <utility>

#include "lorica/server/adapter_admin.h"

namespace lorica::server {

void AdapterAdmin::WriteAdapter(const std::string& name, const lora::AdapterHold& adapter,
                                JsonWriter* json) const {
  const lora::AdapterTiers::Info info = options_.engine->tiers().Describe(adapter);
  json->BeginObject();
  json->Key("name").String(name);
  json->Key("state").String("served");
  json->Key("digest").String(adapter->digest);
  json->Key("tier").String(lora::AdapterTierName(info.tier));
  json->Key("pinned").Bool(info.pinned);
  json->Key("max_rank").Int(adapter->max_rank);
  json->Key("sites").Int(adapter->sites);
  json->Key("bytes").Int(adapter->bytes);
  json->Key("tile_bytes").Int(adapter->tile_bytes);
  json->Key("requests_running").Int(info.running);
  json->Key("requests_waiting").Int(info.waiting);
  json->Key("loads").Int(info.loads);
  json->Key("evictions").Int(info.evictions);
  json->Key("idle_seconds").Float(static_cast<float>(info.idle_seconds));
  json->Key("last_failure").StringOrNull(info.failure.message());
  json->EndObject();
}

std::string AdapterAdmin::List() const {
  JsonWriter json;
  json.BeginObject();
  json.Key("object").String("list");
  json.Key("data").BeginArray();
  for (const auto& version : options_.engine->registry().List()) {
    WriteAdapter(version->name(), version->adapter(), &json);
  }
  for (const auto& [name, reason] : options_.engine->registry().Refused()) {
    json.BeginObject();
    json.Key("name").String(name);
    json.Key("state").String("refused");
    json.Key("reason").String(reason.message());
    json.EndObject();
  }
  json.EndArray();
  const lora::AdapterTiers::Totals totals = options_.engine->tiers().totals();
  json.Key("memory").BeginObject();
  json.Key("hot_adapters").Int(totals.hot);
  json.Key("hot_bytes").Int(totals.hot_bytes);
  json.Key("arena_bytes").Int(options_.engine->options().adapter_bytes);
  json.Key("cold_adapters").Int(totals.cold);
  json.Key("cold_bytes").Int(totals.cold_bytes);
  json.Key("cold_budget_bytes").Int(options_.engine->options().cold_bytes);
  json.EndObject();
  json.Key("hits").Int(totals.hits);
  json.Key("misses").Int(totals.misses);
  json.Key("loads").Int(totals.loads);
  json.Key("evictions").Int(totals.evictions);
  json.EndObject();
  return json.Take();
}

ApiResult<std::string> AdapterAdmin::Get(const std::string& name) const {
  const Result<lora::AdapterRef> version = options_.engine->registry().Acquire(name);
  if (!version.ok()) return ToApiError(version.status(), "name");
  JsonWriter json;
  WriteAdapter(name, version->version().adapter(), &json);
  return json.Take();
}

}  // namespace lorica::server
