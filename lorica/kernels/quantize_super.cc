#include "lorica/kernels/quantize_super.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace lorica::kernels {
namespace {

void Resize(DType storage, int64_t k, QuantRow* out) {
  const auto weights = static_cast<size_t>(QuantBlocks(k) * kQuantBlock);
  const size_t supers = (weights + kSuperBlock - 1) / kSuperBlock;
  const bool has_minimum = HasMinimum(storage);
  out->q.assign(weights, static_cast<uint8_t>(QuantZero(storage)));
  out->d.assign(supers, 0.0f);
  out->m.assign(has_minimum ? supers : 0, 0.0f);
  out->sub_d.assign(weights / static_cast<size_t>(SubBlockElements(storage)), 0);
  out->sub_m.assign(has_minimum ? out->sub_d.size() : 0, 0);
}

// The f16 of which the greatest value is `most` times, but for the rounding to f16.
float ScaleFor(const std::vector<float>& values, float most) {
  float greatest = 0.0f;
  for (const float value : values) greatest = std::max(greatest, value);
  return F16ToF32(F32ToF16(std::min(greatest / most, 65504.0f)));
}

int8_t Up(float value, float scale, float most) {
  return scale == 0.0f ? int8_t{0} : static_cast<int8_t>(std::min(std::ceil(value / scale), most));
}

// One super-block, in order: the minima, which widen the ranges, the scales, the integers.
void QuantizeSuper(DType storage, std::span<const float> row, size_t first, QuantRow* out) {
  const auto sub = static_cast<size_t>(SubBlockElements(storage));
  const size_t last = std::min(first + size_t{kSuperBlock}, row.size());
  const size_t super = first / kSuperBlock;
  const bool has_minimum = HasMinimum(storage);
  std::vector<float> below, above;
  for (size_t k = first; k < last; k += sub) {
    const auto values = row.subspan(k, std::min(sub, last - k));
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    below.push_back(std::max(0.0f, -*least));
    above.push_back(std::max(0.0f, *most));
  }
  if (has_minimum) out->m[super] = -ScaleFor(below, 63.0f);
  for (size_t i = 0; i < below.size(); ++i) {
    if (has_minimum) {
      int8_t& sub_m = out->sub_m[first / sub + i];
      sub_m = Up(below[i], -out->m[super], 63.0f);
      above[i] = (above[i] - out->m[super] * static_cast<float>(sub_m)) / 15.0f;
    } else {
      above[i] = std::max(above[i], below[i]) / 31.0f;
    }
  }
  const float most = has_minimum ? 63.0f : 127.0f;
  out->d[super] = ScaleFor(above, most);
  for (size_t i = 0; i < above.size(); ++i) {
    out->sub_d[first / sub + i] = Up(above[i], out->d[super], most);
  }
  const auto zero = static_cast<float>(QuantZero(storage));
  const float greatest = has_minimum ? 15.0f : 63.0f;
  for (size_t k = first; k < last; ++k) {
    const SubScale scale = SubScaleAt(storage, *out, k);
    const float q = scale.d == 0.0f ? zero : (row[k] - scale.m) / scale.d + zero;
    out->q[k] = static_cast<uint8_t>(std::clamp(std::nearbyint(q), 0.0f, greatest));
  }
}

}  // namespace

void QuantizeSuperBlocks(DType storage, std::span<const float> row, QuantRow* out) {
  Resize(storage, static_cast<int64_t>(row.size()), out);
  for (size_t first = 0; first < row.size(); first += kSuperBlock) {
    QuantizeSuper(storage, row, first, out);
  }
}

void ReadSuperBlocks(DType storage, const std::byte* stored, int64_t k, QuantRow* out) {
  Resize(storage, k, out);
  const int64_t subs = kSuperBlock / SubBlockElements(storage);
  for (size_t super = 0; super < out->d.size(); ++super) {
    const auto i = static_cast<int64_t>(super);
    const SuperBlock block = ReadSuperBlock(storage, stored + i * BlockBytes(storage));
    std::copy_n(block.q, kSuperBlock, out->q.begin() + i * kSuperBlock);
    std::copy_n(block.sub_d, subs, out->sub_d.begin() + i * subs);
    out->d[super] = block.d;
    if (!HasMinimum(storage)) continue;
    std::copy_n(block.sub_m, subs, out->sub_m.begin() + i * subs);
    out->m[super] = block.m;
  }
}

SubScale SubScaleAt(DType storage, const QuantRow& quant, size_t k) {
  const size_t sub = k / static_cast<size_t>(SubBlockElements(storage));
  SubScale scale;
  scale.d = quant.d[k / kSuperBlock] * static_cast<float>(quant.sub_d[sub]);
  if (!quant.m.empty()) scale.m = quant.m[k / kSuperBlock] * static_cast<float>(quant.sub_m[sub]);
  return scale;
}

}  // namespace lorica::kernels
