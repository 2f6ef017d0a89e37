// The tensor types that a GGUF file numbers, and which of them Lorica serves. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lorica/base/dtype.h"
#include "lorica/base/status.h"

namespace lorica::formats {

// The DType of ggml's type number. UNIMPLEMENTED, with the name, for one that ggml has and Lorica
// does not serve; INVALID_ARGUMENT for a number that ggml never had or has retired.
Result<DType> GgufTensorType(uint32_t number);

}  // namespace lorica::formats
