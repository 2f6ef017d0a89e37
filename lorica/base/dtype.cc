#include "lorica/base/dtype.h"

#include <cmath>
#include <cstring>

#include "lorica/base/super_block.h"

namespace lorica {
namespace {

struct DTypeFacts {
  std::string_view name;
  int64_t block_elements;
  int64_t block_bytes;
};

constexpr int64_t kBlock = 32;

DTypeFacts Facts(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return {"F32", 1, 4};
    case DType::kF16:
      return {"F16", 1, 2};
    case DType::kBF16:
      return {"BF16", 1, 2};
    case DType::kF64:
      return {"F64", 1, 8};
    case DType::kI8:
      return {"I8", 1, 1};
    case DType::kI16:
      return {"I16", 1, 2};
    case DType::kI32:
      return {"I32", 1, 4};
    case DType::kI64:
      return {"I64", 1, 8};
    case DType::kU8:
      return {"U8", 1, 1};
    case DType::kU16:
      return {"U16", 1, 2};
    case DType::kU32:
      return {"U32", 1, 4};
    case DType::kU64:
      return {"U64", 1, 8};
    case DType::kBool:
      return {"BOOL", 1, 1};
    case DType::kF8E4M3:
      return {"F8_E4M3", 1, 1};
    case DType::kF8E5M2:
      return {"F8_E5M2", 1, 1};
    case DType::kQ4_0:
      return {"Q4_0", kBlock, 2 + kBlock / 2};
    case DType::kQ4_1:
      return {"Q4_1", kBlock, 4 + kBlock / 2};
    case DType::kQ8_0:
      return {"Q8_0", kBlock, 2 + kBlock};
    case DType::kQ4_K:
      return {"Q4_K", kSuperBlock, 4 + 12 + kSuperBlock / 2};
    case DType::kQ6_K:
      return {"Q6_K", kSuperBlock, 2 + 16 + kSuperBlock / 4 * 3};
  }
  LORICA_CHECK(false);
}

template <typename T>
T Load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

// One block of 32 nibbles: w = d * (q + offset) with an integer offset, or d * q + m.
void DequantizeNibbles(const std::byte* nibbles, float d, int offset, float m, float* out) {
  for (int j = 0; j < kBlock / 2; ++j) {
    const auto byte = std::to_integer<int>(nibbles[j]);
    out[j] = d * static_cast<float>((byte & 0xf) + offset) + m;
    out[j + kBlock / 2] = d * static_cast<float>((byte >> 4) + offset) + m;
  }
}

void DequantizeSuperBlock(DType dtype, const std::byte* source, float* out) {
  const SuperBlock block = ReadSuperBlock(dtype, source);
  for (int64_t i = 0; i < kSuperBlock; ++i) {
    const int64_t sub = i / SubBlockElements(dtype);
    const float d = block.d * static_cast<float>(block.sub_d[sub]);
    if (dtype == DType::kQ6_K) {
      out[i] = d * static_cast<float>(block.q[i] - 32);
    } else {
      const float m = block.m * static_cast<float>(block.sub_m[sub]);
      out[i] = d * static_cast<float>(block.q[i]) + m;
    }
  }
}

}  // namespace

std::string_view DTypeName(DType dtype) { return Facts(dtype).name; }
int64_t BlockElements(DType dtype) { return Facts(dtype).block_elements; }
int64_t BlockBytes(DType dtype) { return Facts(dtype).block_bytes; }

int64_t ElementsToBytes(DType dtype, int64_t elements) {
  const DTypeFacts facts = Facts(dtype);
  LORICA_DCHECK(elements % facts.block_elements == 0);
  return elements / facts.block_elements * facts.block_bytes;
}

bool IsFloatOrBlock(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF64:
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ8_0:
    case DType::kQ4_K:
    case DType::kQ6_K:
      return true;
    default:
      return false;
  }
}

void DequantizeRow(DType dtype, const std::byte* source, int64_t n, float* destination) {
  switch (dtype) {
    case DType::kF32:
      std::memcpy(destination, source, static_cast<size_t>(n) * sizeof(float));
      return;
    case DType::kF16:
      for (int64_t i = 0; i < n; ++i) destination[i] = F16ToF32(Load<uint16_t>(source + 2 * i));
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < n; ++i) destination[i] = Bf16ToF32(Load<uint16_t>(source + 2 * i));
      return;
    case DType::kF64:
      for (int64_t i = 0; i < n; ++i) {
        destination[i] = static_cast<float>(Load<double>(source + 8 * i));
      }
      return;
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ8_0: {
      const int64_t bytes = BlockBytes(dtype);
      for (int64_t b = 0; b < n / kBlock; ++b) {
        const std::byte* block = source + b * bytes;
        float* out = destination + b * kBlock;
        const float d = F16ToF32(Load<uint16_t>(block));
        if (dtype == DType::kQ4_0) {
          DequantizeNibbles(block + 2, d, -8, 0.0f, out);
        } else if (dtype == DType::kQ4_1) {
          DequantizeNibbles(block + 4, d, 0, F16ToF32(Load<uint16_t>(block + 2)), out);
        } else {
          for (int j = 0; j < kBlock; ++j) {
            out[j] = d * static_cast<float>(Load<int8_t>(block + 2 + j));
          }
        }
      }
      return;
    }
    case DType::kQ4_K:
    case DType::kQ6_K:
      for (int64_t b = 0; b < n / kSuperBlock; ++b) {
        DequantizeSuperBlock(dtype, source + b * BlockBytes(dtype), destination + b * kSuperBlock);
      }
      return;
    default:
      LORICA_CHECK(false);
  }
}

float F16ToF32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    // Built from an integer, so that flush-to-zero on this thread cannot change it.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

uint16_t F32ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x33000000u) return static_cast<uint16_t>(sign);  // under half of 2^-24
  int exponent = static_cast<int>(magnitude >> 23) - 127;
  const uint32_t full = (magnitude & 0x7fffffu) | 0x800000u;
  // Bits dropped: 13 for normal halves, more as the value goes subnormal.
  const int drop = exponent >= -14 ? 13 : 13 + (-14 - exponent);
  uint32_t rounded = full >> drop;
  const uint32_t rest = full & ((1u << drop) - 1u);
  const uint32_t half = 1u << (drop - 1);
  if (rest > half || (rest == half && (rounded & 1u))) ++rounded;
  if (exponent < -14) return static_cast<uint16_t>(sign | rounded);
  // The implicit bit of `rounded` adds 1 to the exponent field, a carry adds another.
  return static_cast<uint16_t>(sign | ((static_cast<uint32_t>(exponent + 14) << 10) + rounded));
}

}  // namespace lorica
