#include "lorica/formats/peft_scale.h"

#include <cmath>
#include <limits>

namespace lorica::formats {

PeftScale::PeftScale(const PeftConfig& config)
    : config_(config),
      rank_{"rank_pattern", &config.rank_pattern, {}, {}},
      alpha_{"alpha_pattern", &config.alpha_pattern, {}, {}} {
  rank_.used.resize(config.rank_pattern.size());
  alpha_.used.resize(config.alpha_pattern.size());
}

Result<double> PeftScale::Lookup(Table& table, std::string_view module_path, double fallback) {
  const PatternEntry* winner = nullptr;
  for (size_t i = 0; i < table.entries->size(); ++i) {
    const PatternEntry& entry = (*table.entries)[i];
    Result<bool> hit = entry.pattern.Matches(module_path);
    if (!hit.ok()) {
      return hit.status().WithContext(config_.name + ": \"" + std::string(table.field) + "\"");
    }
    if (!*hit) continue;
    table.used[i] = true;
    if (winner == nullptr) {
      winner = &entry;
    } else if (winner->value != entry.value && table.overlap.empty()) {
      table.overlap = QuoteForMessage(winner->pattern.key()) + " and " +
                      QuoteForMessage(entry.pattern.key()) + " both match " +
                      QuoteForMessage(module_path) + "; the first in the file is used";
    }
  }
  return winner == nullptr ? fallback : winner->value;
}

Result<ModuleScale> PeftScale::Resolve(std::string_view module_path) {
  LORICA_ASSIGN_OR_RETURN(const double rank,
                          Lookup(rank_, module_path, static_cast<double>(config_.r)));
  LORICA_ASSIGN_OR_RETURN(const double alpha, Lookup(alpha_, module_path, config_.lora_alpha));
  const double scale = config_.use_rslora ? alpha / std::sqrt(rank) : alpha / rank;
  if (std::abs(scale) > std::numeric_limits<float>::max()) {
    return OutOfRange(config_.name +
                      ": \"lora_alpha\": expected a scale that a float can hold, "
                      "found alpha " +
                      std::to_string(alpha) + " for " + QuoteForMessage(module_path));
  }
  return ModuleScale{static_cast<int64_t>(rank), alpha, scale};
}

std::vector<std::string> PeftScale::Warnings() const {
  std::vector<std::string> warnings;
  for (const Table* table : {&rank_, &alpha_}) {
    const std::string where = config_.name + ": \"" + std::string(table->field) + "\": ";
    for (size_t i = 0; i < table->used.size(); ++i) {
      if (table->used[i]) continue;
      warnings.push_back(where + "key " + QuoteForMessage((*table->entries)[i].pattern.key()) +
                         " matches no module of the adapter");
    }
    if (!table->overlap.empty()) warnings.push_back(where + "keys " + table->overlap);
  }
  return warnings;
}

}  // namespace lorica::formats
