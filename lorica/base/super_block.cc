#include "lorica/base/super_block.h"

#include <cstring>

namespace lorica {
namespace {

float LoadHalf(const std::byte* from) {
  uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof(bits));
  return F16ToF32(bits);
}

// f16 d, f16 dmin, 12 bytes of scales, 128 of nibbles.
SuperBlock ReadQ4K(const std::byte* block) {
  SuperBlock out;
  out.d = LoadHalf(block);
  out.m = -LoadHalf(block + 2);
  const auto scale = [&](int i) { return std::to_integer<int>(block[4 + i]); };
  for (int j = 0; j < 4; ++j) {
    // Six bits each: those of sub-blocks 4 to 7 are a nibble, and the two bits left over by 0 to 3.
    out.sub_d[j] = static_cast<int8_t>(scale(j) & 63);
    out.sub_m[j] = static_cast<int8_t>(scale(j + 4) & 63);
    out.sub_d[j + 4] = static_cast<int8_t>((scale(j + 8) & 15) | (scale(j) >> 6 << 4));
    out.sub_m[j + 4] = static_cast<int8_t>((scale(j + 8) >> 4) | (scale(j + 4) >> 6 << 4));
  }
  for (int i = 0; i < 128; ++i) {
    const int at = i / 32 * 64 + i % 32;
    const auto pair = std::to_integer<uint8_t>(block[16 + i]);
    out.q[at] = pair & 15u;
    out.q[at + 32] = static_cast<uint8_t>(pair >> 4);
  }
  return out;
}

// 128 bytes of low nibbles, 64 of two high bits, 16 scales, f16 d.
SuperBlock ReadQ6K(const std::byte* block) {
  SuperBlock out;
  std::memcpy(out.sub_d, block + 192, sizeof(out.sub_d));
  out.d = LoadHalf(block + 208);
  for (int i = 0; i < kSuperBlock; ++i) {
    const int half = i / 128;
    const int quarter = i % 128 / 32;
    const auto low = std::to_integer<int>(block[half * 64 + quarter % 2 * 32 + i % 32]);
    const auto high = std::to_integer<int>(block[128 + half * 32 + i % 32]);
    out.q[i] = static_cast<uint8_t>((low >> quarter / 2 * 4 & 15) | (high >> 2 * quarter & 3) << 4);
  }
  return out;
}

}  // namespace

SuperBlock ReadSuperBlock(DType dtype, const std::byte* block) {
  LORICA_DCHECK(IsSuperBlocked(dtype));
  return dtype == DType::kQ4_K ? ReadQ4K(block) : ReadQ6K(block);
}

}  // namespace lorica
