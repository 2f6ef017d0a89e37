// half and bfloat16_t as the AI Core has them: 16-bit storage, conversion to float exact, from
// float rounded to nearest even (IEEE; overflow to infinity). Arithmetic in scalar code goes
// through float. Plain values; C++17, since kernel sources see this header.
#pragma once

#include <cstdint>
#include <cstring>

namespace lorica::ascend {

// How a cast rounds; the values of AscendC::RoundMode.
enum class Rounding : uint8_t { kNone, kRint, kFloor, kCeil, kRound, kTrunc, kOdd };

inline uint32_t FloatBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
inline float BitsFloat(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// 65,536 floats, built at first use.
const float* HalfTable();
// Nearest even; overflow to infinity; a NaN stays one (quiet).
uint16_t FloatToHalfBits(float value);
uint16_t FloatToBf16Bits(float value);
// Rounds an exact double to half or bf16 in one step, in any mode.
uint16_t RoundToHalfBits(double value, Rounding mode);
uint16_t RoundToBf16Bits(double value, Rounding mode);

inline float HalfBitsToFloat(uint16_t bits) { return HalfTable()[bits]; }
inline float Bf16BitsToFloat(uint16_t bits) { return BitsFloat(uint32_t{bits} << 16); }

struct Half {
  uint16_t bits;
  Half() = default;
  Half(float value) : bits(FloatToHalfBits(value)) {}  // NOLINT: implicit, as on the device
  operator float() const { return HalfBitsToFloat(bits); }
};
struct Bfloat16 {
  uint16_t bits;
  Bfloat16() = default;
  Bfloat16(float value) : bits(FloatToBf16Bits(value)) {}  // NOLINT: implicit, as on the device
  operator float() const { return Bf16BitsToFloat(bits); }
};

}  // namespace lorica::ascend
