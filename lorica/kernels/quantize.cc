#include "lorica/kernels/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "lorica/base/check.h"
#include "lorica/kernels/quantize_super.h"

namespace lorica::kernels {
namespace {

// A block of x below this is zero: its inverse would overflow.
constexpr float kLeastInput = 0x1p-100f;

float RoundToF16(float value) { return F16ToF32(F32ToF16(std::clamp(value, -65504.0f, 65504.0f))); }

uint8_t Nearest(float value, int32_t greatest) {
  return static_cast<uint8_t>(
      std::clamp(std::nearbyint(value), 0.0f, static_cast<float>(greatest)));
}

float Inverse(float d) { return d == 0.0f ? 0.0f : 1.0f / d; }

float GreatestMagnitude(std::span<const float> values) {
  float greatest = 0.0f;
  for (const float value : values) greatest = std::max(greatest, std::fabs(value));
  return greatest;
}

// q of one block given its d and m.
void QuantizeBlock(DType storage, std::span<const float> values, float d, float m, uint8_t* q) {
  const auto zero = static_cast<float>(QuantZero(storage));
  const int32_t greatest = zero == 128.0f ? 255 : 15;
  const float inverse = Inverse(d);
  for (size_t i = 0; i < values.size(); ++i) {
    q[i] = Nearest((values[i] - m) * inverse + zero, greatest);
  }
}

// The d (and m) that ggml's quantiser would choose for these values.
void ChooseScale(DType storage, std::span<const float> values, float* d, float* m) {
  if (storage == DType::kQ8_0) {
    *d = RoundToF16(GreatestMagnitude(values) / 127.0f);
    return;
  }
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  if (storage == DType::kQ4_0) {
    // The value of greatest magnitude becomes -8, whatever its sign.
    *d = RoundToF16((-*least > *most ? *least : *most) / -8.0f);
    return;
  }
  *m = RoundToF16(*least);
  *d = RoundToF16((*most - *least) / 15.0f);
}

void ReadBlock(DType storage, const std::byte* block, uint8_t* q, float* d, float* m) {
  uint16_t bits = 0;
  std::memcpy(&bits, block, sizeof(bits));
  *d = F16ToF32(bits);
  block += 2;
  if (storage == DType::kQ8_0) {
    for (int i = 0; i < kQuantBlock; ++i) q[i] = std::to_integer<uint8_t>(block[i]) ^ 0x80u;
    return;
  }
  if (storage == DType::kQ4_1) {
    std::memcpy(&bits, block, sizeof(bits));
    *m = F16ToF32(bits);
    block += 2;
  }
  for (int i = 0; i < kQuantBlock / 2; ++i) {
    const auto pair = std::to_integer<uint8_t>(block[i]);
    q[i] = pair & 15u;
    q[i + kQuantBlock / 2] = static_cast<uint8_t>(pair >> 4);
  }
}

void Resize(DType storage, int64_t k, QuantRow* out) {
  const auto blocks = static_cast<size_t>(QuantBlocks(k));
  out->q.assign(blocks * kQuantBlock, static_cast<uint8_t>(QuantZero(storage)));
  out->sub_d.clear();
  out->sub_m.clear();
  out->d.assign(storage == DType::kI8 ? 1 : blocks, 0.0f);
  out->m.assign(storage == DType::kQ4_1 ? blocks : 0, 0.0f);
}

}  // namespace

void QuantizeRow(DType storage, std::span<const float> row, QuantRow* out) {
  LORICA_CHECK(IsQuantized(storage));
  if (IsSuperBlocked(storage)) return QuantizeSuperBlocks(storage, row, out);
  Resize(storage, static_cast<int64_t>(row.size()), out);
  if (storage == DType::kI8) {
    out->d[0] = GreatestMagnitude(row) / 127.0f;
    QuantizeBlock(storage, row, out->d[0], 0.0f, out->q.data());
    return;
  }
  for (size_t b = 0; b * kQuantBlock < row.size(); ++b) {
    const size_t first = b * kQuantBlock;
    const auto values = row.subspan(first, std::min<size_t>(kQuantBlock, row.size() - first));
    float m = 0.0f;
    ChooseScale(storage, values, &out->d[b], &m);
    QuantizeBlock(storage, values, out->d[b], m, out->q.data() + first);
    if (storage == DType::kQ4_1) out->m[b] = m;
  }
}

void ReadQuantRow(const RowSource& source, int64_t n, DType storage, std::span<float> scratch,
                  QuantRow* out) {
  if (source.stored() != storage) {
    source.ReadRow(n, scratch);
    QuantizeRow(storage, scratch, out);
    return;
  }
  const std::byte* stored = source.StoredRow(n);
  if (IsSuperBlocked(storage)) return ReadSuperBlocks(storage, stored, source.k(), out);
  Resize(storage, source.k(), out);
  for (size_t b = 0; b < out->d.size(); ++b) {
    float m = 0.0f;
    ReadBlock(storage, stored + static_cast<int64_t>(b) * BlockBytes(storage),
              out->q.data() + b * kQuantBlock, &out->d[b], &m);
    if (storage == DType::kQ4_1) out->m[b] = m;
  }
}

void DequantizeRow(DType storage, const QuantRow& quant, std::span<float> row) {
  const int32_t zero = QuantZero(storage);
  for (size_t k = 0; k < row.size(); ++k) {
    if (IsSuperBlocked(storage)) {
      const SubScale scale = SubScaleAt(storage, quant, k);
      row[k] = scale.d * static_cast<float>(quant.q[k] - zero) + scale.m;
      continue;
    }
    const size_t b = k / kQuantBlock;
    const float d = quant.d[storage == DType::kI8 ? 0 : b];
    const float m = quant.m.empty() ? 0.0f : quant.m[b];
    row[k] = d * static_cast<float>(quant.q[k] - zero) + m;
  }
}

InputScale ScaleOfInput(uint32_t greatest) {
  if (greatest >= 0x7f800000u) return {std::numeric_limits<float>::quiet_NaN(), 0.0f};
  const float most = std::bit_cast<float>(greatest);
  if (most < kLeastInput) return {};
  return {most / 127.0f, 127.0f / most};
}

}  // namespace lorica::kernels
