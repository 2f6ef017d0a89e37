#include "lorica/model/norm_rope.h"

#include <cmath>
#include <numbers>

namespace lorica::model {
namespace {

// Long waves are slowed down by `factor`, short ones kept, those between mixed.
float Llama3Frequency(const RopeConfig& rope, float frequency) {
  const auto factor = static_cast<float>(rope.factor);
  const auto context = static_cast<double>(rope.original_max_positions);
  const float wave = static_cast<float>(2.0 * std::numbers::pi) / frequency;
  if (wave > static_cast<float>(context / rope.low_freq_factor)) return frequency / factor;
  if (wave < static_cast<float>(context / rope.high_freq_factor)) return frequency;
  const float smooth =
      (static_cast<float>(context) / wave - static_cast<float>(rope.low_freq_factor)) /
      static_cast<float>(rope.high_freq_factor - rope.low_freq_factor);
  return (1.0f - smooth) * frequency / factor + smooth * frequency;
}

}  // namespace

std::vector<float> InverseFrequencies(const RopeConfig& rope, int32_t rotary_dims) {
  std::vector<float> frequencies(static_cast<size_t>(rotary_dims / 2));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rotary_dims);
    // The power in f32, as the oracle rounds it, then its inverse in f32.
    const auto power = static_cast<float>(
        std::pow(static_cast<double>(static_cast<float>(rope.theta)), double{exponent}));
    float frequency = 1.0f / power;
    if (rope.kind == RopeKind::kLinear) frequency /= static_cast<float>(rope.factor);
    if (rope.kind == RopeKind::kLlama3) frequency = Llama3Frequency(rope, frequency);
    if (!rope.frequency_divisors.empty()) frequency /= rope.frequency_divisors[i];
    frequencies[i] = frequency;
  }
  return frequencies;
}

Result<RopeTables> RopeTables::Create(const RopeConfig& rope, int32_t rotary_dims,
                                      int64_t positions, MachineContext* context) {
  const int64_t half = rotary_dims / 2;
  const int64_t bytes = positions * half * static_cast<int64_t>(sizeof(float));
  RopeTables tables;
  LORICA_ASSIGN_OR_RETURN(tables.cos_,
                          Buffer::Allocate(bytes, MemoryTag::kActivations, &context->ledger));
  LORICA_ASSIGN_OR_RETURN(tables.sin_,
                          Buffer::Allocate(bytes, MemoryTag::kActivations, &context->ledger));
  const std::vector<float> frequencies = InverseFrequencies(rope, rotary_dims);
  const auto cosines = tables.cos_.as<float>();
  const auto sines = tables.sin_.as<float>();
  context->pool.Run([&](const TeamMember& member) {
    const IndexRange range = SplitRange(positions, member);
    for (int64_t position = range.begin; position < range.end; ++position) {
      for (int64_t i = 0; i < half; ++i) {
        const float angle = static_cast<float>(position) * frequencies[static_cast<size_t>(i)];
        const auto at = static_cast<size_t>(position * half + i);
        cosines[at] = static_cast<float>(std::cos(double{angle}));
        sines[at] = static_cast<float>(std::sin(double{angle}));
      }
    }
  });
  return tables;
}

}  // namespace lorica::model
