#include "lorica/formats/gguf_tensor_types.h"

#include <iterator>
#include <optional>

namespace lorica::formats {
namespace {

struct TensorType {
  std::string_view name;
  std::optional<DType> dtype;  // none: in ggml, not served
};

// By ggml's number. An empty name is a number that ggml has retired.
constexpr TensorType kTensorTypes[] = {
    {"F32", DType::kF32},
    {"F16", DType::kF16},
    {"Q4_0", DType::kQ4_0},
    {"Q4_1", DType::kQ4_1},
    {"", {}},
    {"", {}},
    {"Q5_0", {}},
    {"Q5_1", {}},
    {"Q8_0", DType::kQ8_0},
    {"Q8_1", {}},
    {"Q2_K", {}},
    {"Q3_K", {}},
    {"Q4_K", DType::kQ4_K},
    {"Q5_K", {}},
    {"Q6_K", DType::kQ6_K},
    {"Q8_K", {}},
    {"IQ2_XXS", {}},
    {"IQ2_XS", {}},
    {"IQ3_XXS", {}},
    {"IQ1_S", {}},
    {"IQ4_NL", {}},
    {"IQ3_S", {}},
    {"IQ2_S", {}},
    {"IQ4_XS", {}},
    {"I8", DType::kI8},
    {"I16", DType::kI16},
    {"I32", DType::kI32},
    {"I64", DType::kI64},
    {"F64", DType::kF64},
    {"IQ1_M", {}},
    {"BF16", DType::kBF16},
    {"", {}},
    {"", {}},
    {"", {}},
    {"TQ1_0", {}},
    {"TQ2_0", {}},
    {"", {}},
    {"", {}},
    {"", {}},
    {"MXFP4", {}},
    {"NVFP4", {}},
};

}  // namespace

Result<DType> GgufTensorType(uint32_t number) {
  if (number >= std::size(kTensorTypes) || kTensorTypes[number].name.empty()) {
    return InvalidArgument("expected a tensor type of ggml, found number " +
                           std::to_string(number));
  }
  const TensorType& type = kTensorTypes[number];
  if (type.dtype) return *type.dtype;
  return Unimplemented("type " + std::string(type.name) + " is not served");
}

}  // namespace lorica::formats
