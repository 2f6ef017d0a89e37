#include "lorica/formats/factor_scan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "lorica/base/thread_priority.h"

namespace lorica::formats {
namespace {

constexpr int64_t kBlock = 2048;
constexpr int64_t kPiece = 16 * kBlock;  // between two looks at who waits for the processor

// Narrow already: its 16 bits say all that there is to know.
FactorScan ScanBf16(const TensorView& factor) {
  constexpr uint32_t kInfinity = 0x7f80;
  FactorScan scan;
  const int64_t elements = factor.elements();
  std::array<uint16_t, kBlock> values;
  for (int64_t start = 0; start < elements; start += kBlock) {
    const int64_t n = std::min(kBlock, elements - start);
    if (start % kPiece == 0) GiveWay();
    std::memcpy(values.data(), factor.data + 2 * start, static_cast<size_t>(2 * n));
    uint16_t any = 0;
    uint16_t largest = 0;
    for (int64_t i = 0; i < n; ++i) {
      const auto magnitude = static_cast<uint16_t>(values[static_cast<size_t>(i)] & 0x7fffu);
      any |= magnitude;
      largest = std::max(largest, magnitude);
    }
    if (largest >= kInfinity) {
      const auto bad = std::find_if(values.begin(), values.begin() + n, [](uint16_t value) {
        return (value & kInfinity) == kInfinity;
      });
      scan.not_finite = start + (bad - values.begin());
      return scan;
    }
    scan.all_zero &= any == 0;
  }
  return scan;
}

}  // namespace

FactorScan ScanFactor(const TensorView& factor) {
  if (factor.dtype == DType::kBF16) return ScanBf16(factor);
  FactorScan scan;
  bool fits_bf16 = true;
  bool fits_f16 = true;
  const int64_t elements = factor.elements();
  std::array<float, kBlock> values;
  for (int64_t start = 0; start < elements; start += kBlock) {
    const int64_t n = std::min(kBlock, elements - start);
    if (start % kPiece == 0) GiveWay();
    DequantizeRow(factor.dtype, factor.data + ElementsToBytes(factor.dtype, start), n,
                  values.data());
    uint32_t low = 0;
    uint32_t any = 0;
    bool finite = true;
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t bits = std::bit_cast<uint32_t>(values[static_cast<size_t>(i)]);
      low |= bits & 0xffffu;
      any |= bits & 0x7fffffffu;
      finite &= (bits & 0x7f800000u) != 0x7f800000u;
    }
    if (!finite) {
      const auto bad = std::find_if(values.begin(), values.begin() + n, [](float value) {
        return (std::bit_cast<uint32_t>(value) & 0x7f800000u) == 0x7f800000u;
      });
      scan.not_finite = start + (bad - values.begin());
      return scan;
    }
    scan.all_zero &= any == 0;
    fits_bf16 &= low == 0;
    // Only a factor that is too fine for bf16 is tried in f16.
    if (factor.dtype == DType::kF32 && fits_f16) {
      fits_f16 = std::all_of(values.begin(), values.begin() + n, [](float value) {
        return std::bit_cast<uint32_t>(F16ToF32(F32ToF16(value))) == std::bit_cast<uint32_t>(value);
      });
    }
  }
  if (!fits_bf16) scan.narrowest = fits_f16 ? DType::kF16 : DType::kF32;
  return scan;
}

}  // namespace lorica::formats
