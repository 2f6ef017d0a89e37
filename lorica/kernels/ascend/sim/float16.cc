#include "lorica/kernels/ascend/sim/float16.h"

#include <cmath>
#include <limits>
#include <vector>

namespace lorica::ascend {
namespace {

struct Format {
  int mantissa_bits;  // stored
  int min_exponent;   // of the least normal number, 2^min
  int max_exponent;   // of the greatest binade
};
constexpr Format kHalfFormat{10, -14, 15};
constexpr Format kBf16Format{7, -126, 127};

double RoundInteger(double scaled, Rounding mode) {
  const double low = std::floor(scaled);
  if (low == scaled) return scaled;
  const double fraction = scaled - low;
  const bool low_is_odd = std::fmod(low, 2.0) != 0.0;
  switch (mode) {
    case Rounding::kFloor:
      return low;
    case Rounding::kCeil:
      return low + 1;
    case Rounding::kTrunc:
      return scaled < 0 ? low + 1 : low;
    case Rounding::kRound:  // ties away from zero
      if (fraction != 0.5) return fraction < 0.5 ? low : low + 1;
      return scaled < 0 ? low : low + 1;
    case Rounding::kOdd:
      return low_is_odd ? low : low + 1;
    case Rounding::kNone:
    case Rounding::kRint:
      break;
  }
  if (fraction != 0.5) return fraction < 0.5 ? low : low + 1;
  return low_is_odd ? low + 1 : low;
}

uint16_t RoundTo(const Format& format, double value, Rounding mode) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const int exponent_ones = format.max_exponent - format.min_exponent + 2;
  const uint16_t infinity = static_cast<uint16_t>(exponent_ones << format.mantissa_bits);
  if (std::isnan(value)) {
    return static_cast<uint16_t>(sign | infinity | (1 << (format.mantissa_bits - 1)));
  }
  if (std::isinf(value)) return sign | infinity;
  if (value == 0) return sign;
  int exponent = std::ilogb(value);
  if (exponent < format.min_exponent) exponent = format.min_exponent;
  const int unit = exponent - format.mantissa_bits;  // of the last place
  const double rounded = std::fabs(RoundInteger(std::ldexp(value, -unit), mode));
  // `rounded` may have reached the next binade: adding it to the biased field carries by itself.
  const int field = exponent - format.min_exponent;
  const int64_t bits = (int64_t{field} << format.mantissa_bits) + static_cast<int64_t>(rounded);
  return sign | static_cast<uint16_t>(bits > infinity ? infinity : bits);
}

std::vector<float> BuildHalfTable() {
  std::vector<float> table(65536);
  for (int bits = 0; bits < 65536; ++bits) {
    const int exponent = (bits >> 10) & 31;
    const int mantissa = bits & 1023;
    float value;
    if (exponent == 31) {
      value = mantissa != 0 ? BitsFloat(0x7FC00000u | static_cast<uint32_t>(mantissa) << 13)
                            : std::numeric_limits<float>::infinity();
    } else if (exponent == 0) {
      value = std::ldexp(static_cast<float>(mantissa), -24);
    } else {
      value = std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
    }
    table[static_cast<size_t>(bits)] =
        (bits & 0x8000) != 0 ? BitsFloat(FloatBits(value) | 0x80000000u) : value;
  }
  return table;
}

}  // namespace

const float* HalfTable() {
  static const std::vector<float> table = BuildHalfTable();
  return table.data();
}

uint16_t RoundToHalfBits(double value, Rounding mode) { return RoundTo(kHalfFormat, value, mode); }
uint16_t RoundToBf16Bits(double value, Rounding mode) { return RoundTo(kBf16Format, value, mode); }

uint16_t FloatToHalfBits(float value) {
  const uint32_t bits = FloatBits(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  // Subnormal results and everything from 2^16 on take the slow, general road.
  if (magnitude < 0x38800000u || magnitude >= 0x47800000u) {
    return RoundTo(kHalfFormat, value, Rounding::kRint);
  }
  const uint32_t rounded = magnitude + 0xFFFu + (magnitude >> 13 & 1u);
  return sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13);
}

uint16_t FloatToBf16Bits(float value) {
  const uint32_t bits = FloatBits(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace lorica::ascend
