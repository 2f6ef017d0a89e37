// Readers of the parts of tokenizer.json. Each serves what byte-level BPE needs and refuses every
// other type, field and value by name (UNIMPLEMENTED), since a component passed over would change
// ids silently. Pure functions, safe on any thread.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <vector>

#include "lorica/base/status.h"
#include "lorica/formats/bpe.h"
#include "lorica/formats/json.h"
#include "lorica/formats/normalizer.h"
#include "lorica/formats/pre_tokenizer.h"

namespace lorica::formats {

// The value may be null throughout: JSON's null or an absent field.
Result<Normalizer> ReadNormalizer(const boost::json::value* value);
Result<PreTokenizer> ReadPreTokenizer(const boost::json::value* value);

struct Affixes {
  std::vector<int32_t> prefix, suffix;
};
// What the template for one sequence puts around it.
Result<Affixes> ReadPostProcessor(const boost::json::value* value);

// The ids' decoder must be ByteLevel. Without one the reference joins spellings with spaces, of
// use to nobody; Lorica decodes by the byte alphabet then too.
Status CheckDecoder(const boost::json::value* value);

// The views look into `model`, which must stay.
Result<BpeSpec> ReadBpeSpec(const JsonObjectReader& model);

}  // namespace lorica::formats
