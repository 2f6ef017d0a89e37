// PeftScale: what rank and scale PEFT gives each module of an adapter. Reads a PeftConfig, which
// must outlive it, and remembers which pattern keys were of use. One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lorica/base/status.h"
#include "lorica/formats/peft_config.h"

namespace lorica::formats {

struct ModuleScale {
  int64_t rank = 0;
  double alpha = 0.0;
  double scale = 0.0;  // alpha / rank, or alpha / sqrt(rank) under use_rslora
};

class PeftScale {
 public:
  explicit PeftScale(const PeftConfig& config);

  // `module_path` as the file has it, without `base_model.model.`. rank_pattern and alpha_pattern
  // are resolved apart, each by its first key that matches. OUT_OF_RANGE when a key takes too long
  // to match or the scale is beyond float.
  Result<ModuleScale> Resolve(std::string_view module_path);

  // After the last Resolve: keys that matched no module, and keys with different values that
  // matched one module, where PEFT itself can change its mind on saving (it sorts the keys).
  std::vector<std::string> Warnings() const;

 private:
  struct Table {
    std::string_view field;
    const std::vector<PatternEntry>* entries;
    std::vector<bool> used;
    std::string overlap;  // the first one met
  };
  // The value for the module, or `fallback` when no key matches.
  Result<double> Lookup(Table& table, std::string_view module_path, double fallback);

  const PeftConfig& config_;
  Table rank_;
  Table alpha_;
};

}  // namespace lorica::formats
