// PeftConfig: the facts of a PEFT adapter_config.json that change what an adapter computes, and
// every reason why Lorica would not serve it exactly. A plain value; ParsePeftConfig is safe on
// any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lorica/base/status.h"
#include "lorica/formats/peft_pattern.h"

namespace lorica::formats {

// One entry of rank_pattern or alpha_pattern. A rank is a whole number.
struct PatternEntry {
  PeftPattern pattern;
  double value = 0.0;
};

// Limits of one pattern object: all its keys, and those that need the regex engine.
inline constexpr size_t kMaxPatternKeys = 8192;
inline constexpr size_t kMaxRegexKeys = 256;

// Defaults are those of PEFT's LoraConfig.
struct PeftConfig {
  std::string name;  // opens each message: the file's path
  int64_t r = 8;
  double lora_alpha = 8.0;
  bool use_rslora = false;
  std::vector<PatternEntry> rank_pattern;   // in the order of the file: the first hit wins
  std::vector<PatternEntry> alpha_pattern;  // likewise
  std::vector<std::string> target_modules;  // a list's entries, for warnings; the tensors decide
  std::string base_model;                   // informational, may be empty

  // Why this adapter is not served; each names the file, the field, what was expected and what
  // was found. Empty for a config that Lorica serves exactly. Fields that were refused keep their
  // default above.
  std::vector<Status> refusals;
  std::vector<std::string> warnings;
};

// Reads the text of an adapter_config.json. Fails as a whole only where there is no PEFT config to
// speak of: bad JSON, no object, no peft_type; else `refusals` lists every reason. A field that
// PEFT does not have is ignored when it is null, false, 0 or empty, and is a refusal otherwise.
Result<PeftConfig> ParsePeftConfig(std::string_view json_text, std::string name);

}  // namespace lorica::formats
