#include "lorica/kernels/ascend/sim/core_api.h"

namespace lorica::ascend {

int32_t TypeBytes(Type type) {
  switch (type) {
    case Type::kHalf:
    case Type::kBf16:
    case Type::kInt16:
    case Type::kUint16:
      return 2;
    case Type::kFloat:
    case Type::kInt32:
    case Type::kUint32:
      return 4;
    case Type::kInt8:
    case Type::kUint8:
      return 1;
    case Type::kInt64:
    case Type::kUint64:
      return 8;
  }
  return 4;
}

const char* TypeName(Type type) {
  static constexpr const char* kNames[] = {"half",   "bfloat16", "float",  "int32",
                                           "uint32", "int16",    "uint16", "int8",
                                           "uint8",  "int64",    "uint64"};
  return kNames[static_cast<size_t>(type)];
}

}  // namespace lorica::ascend
