// Backend: everything that touches weights and activations. The model calls it inside a region
// that the step has opened, on every thread with the same Params; each call ends with its results
// complete on this thread's share only, and the caller Syncs before another thread's share is
// read (LoraLinear Syncs inside, after packing x and between shrink and expand; Attention where
// threads share a sequence, LogitStats where they share a row).
// Implementations: ReferenceBackend (scalar, believed by reading), CpuBackend (SIMD). Immutable
// after it is opened; shared by any thread.
#pragma once

#include <memory>
#include <string_view>

#include "lorica/base/machine_context.h"
#include "lorica/base/status.h"
#include "lorica/base/thread_pool.h"
#include "lorica/kernels/params.h"
#include "lorica/lora/packing.h"
#include "lorica/lora/plan.h"

namespace lorica::kernels {

class Backend {
 public:
  virtual ~Backend() = default;

  // "cpu avx2", "cpu avx512 bf16" (with the bf16 dot), "reference": printed with every figure.
  virtual std::string_view name() const = 0;

  // Packs W as it is read, in the narrowest of `allowed` layouts: bf16 rounds to nearest even
  // when `storage` is kBF16; kF16 and kF32 keep what the source holds. Runs on the pool.
  virtual Result<Weight> PackWeight(const RowSource& source, DType storage,
                                    MachineContext* context) const = 0;
  // Row n of a packed weight, as f32 [K].
  virtual void UnpackRow(const Weight& weight, int64_t n, std::span<float> row) const = 0;

  virtual const lora::TilePacker& tile_packer() const = 0;
  // Limits for `workers` threads.
  virtual lora::PlanLimits plan_limits(int32_t workers) const = 0;
  // Floats of LinearParams::packed_x.
  virtual int64_t PackedInputFloats(int64_t rows, int64_t k) const = 0;
  // Floats of AttentionParams::scratch for each thread.
  virtual int64_t AttentionScratchFloats(const AttentionShape& shape) const = 0;

  virtual void LoraLinear(const LinearParams& params, const TeamMember& member) const = 0;
  virtual void RmsNorm(const RmsNormParams& params, const TeamMember& member) const = 0;
  virtual void Rope(const RopeParams& params, const TeamMember& member) const = 0;
  virtual void KvWrite(const KvWriteParams& params, const TeamMember& member) const = 0;
  virtual void Attention(const AttentionParams& params, const TeamMember& member) const = 0;
  virtual void SwiGlu(const SwiGluParams& params, const TeamMember& member) const = 0;
  virtual void Embed(const EmbedParams& params, const TeamMember& member) const = 0;
  virtual void LogitStats(const LogitStatsParams& params, const TeamMember& member) const = 0;
};

}  // namespace lorica::kernels
