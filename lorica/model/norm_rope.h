// RopeTables: cosines and sines by position, computed once as transformers computes them.
// Immutable after Create; any thread reads.
#pragma once

#include <cstdint>
#include <vector>

#include "lorica/base/buffer.h"
#include "lorica/base/machine_context.h"
#include "lorica/base/status.h"
#include "lorica/model/config.h"

namespace lorica::model {

// Inverse frequencies [rotary_dims / 2] in f32, after linear or llama3 scaling (source: the "RoPE
// scaling" functions of transformers) or GGUF's divisors.
std::vector<float> InverseFrequencies(const RopeConfig& rope, int32_t rotary_dims);

class RopeTables {
 public:
  static Result<RopeTables> Create(const RopeConfig& rope, int32_t rotary_dims, int64_t positions,
                                   MachineContext* context);

  // [positions, rotary_dims / 2]
  const float* cos() const { return cos_.as<float>().data(); }
  const float* sin() const { return sin_.as<float>().data(); }

 private:
  RopeTables() = default;

  Buffer cos_;
  Buffer sin_;
};

}  // namespace lorica::model
