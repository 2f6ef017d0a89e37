// Rotary position fields of config.json, in both spellings: rope_theta + rope_scaling, and the
// newer rope_parameters. Free function, safe on any thread.
#pragma once

#include "lorica/base/status.h"
#include "lorica/formats/json.h"
#include "lorica/model/config.h"

namespace lorica::model {

// Fills config->rope and, for Gemma 3, rope_local. `theta` is the family's default. A file that
// has both spellings is refused unless they say the same.
Status ReadRope(const formats::JsonObjectReader& json, double theta, ModelConfig* config);

}  // namespace lorica::model
