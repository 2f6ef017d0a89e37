// Fuzzes the reader of adapter_config.json and all that a name in an adapter file reaches: pattern
// keys, scales, the key grammar. The input is a config; after a zero byte, if there is one, the
// name of a tensor.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "lorica/base/check.h"
#include "lorica/formats/adapter_keys.h"
#include "lorica/formats/peft_config.h"
#include "lorica/formats/peft_scale.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lorica;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  const formats::AdapterKey key = formats::ParseAdapterKey(
      zero == std::string_view::npos
          ? "base_model.model.model.layers.10.self_attn.q_proj.lora_A.weight"
          : input.substr(zero + 1));
  const bool refused = key.kind == formats::AdapterKeyKind::kRefused;
  LORICA_CHECK(refused == key.module.empty());
  LORICA_CHECK(refused != key.meaning.empty());

  const Result<formats::PeftConfig> config =
      formats::ParsePeftConfig(input.substr(0, zero), "adapter_config.json");
  if (!config.ok()) {
    LORICA_CHECK(!config.status().message().empty());
    return 0;
  }
  for (const Status& refusal : config->refusals) LORICA_CHECK(!refusal.ok());
  LORICA_CHECK(config->r > 0 && std::isfinite(config->lora_alpha));
  formats::PeftScale scale(*config);
  for (const std::string_view path :
       {std::string_view(key.module), std::string_view("model.layers.0.mlp.down_proj")}) {
    const Result<formats::ModuleScale> resolved = scale.Resolve(path);
    LORICA_CHECK(!resolved.ok() || (resolved->rank > 0 && std::isfinite(resolved->scale)));
  }
  static_cast<void>(scale.Warnings());
  return 0;
}
