// GenerationDefaults: what a generation_config.json says about sampling. The request wins, then
// its adapter's file, then the model's. Plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lorica/base/status.h"
#include "lorica/engine/request.h"

namespace lorica::server {

struct GenerationDefaults {
  std::optional<double> temperature;
  std::optional<int32_t> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::vector<int32_t> eos_token_ids;  // end a request beside the tokenizer's own
  std::vector<std::string> stop_strings;

  void Apply(engine::SamplingParams* sampling) const;
  bool operator==(const GenerationDefaults&) const = default;
};

// Reads FOLDER/generation_config.json; defaults of nothing when there is no such file.
// INVALID_ARGUMENT for a malformed field, UNIMPLEMENTED for one that is set, changes the answer
// and is not served.
Result<GenerationDefaults> ReadGenerationDefaults(const std::string& folder);

}  // namespace lorica::server
