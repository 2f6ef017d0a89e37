// KernelTable: the kernels of one instruction set as function pointers. Tables are constants; any
// thread may use them. Every kernel here obeys design rule "isolation": an output element is
// reduced in an order that depends on the layer's shape alone, so that results do not change with
// the number of rows, their neighbours, tiling or threads, and AVX2 equals AVX-512 bit for bit.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lorica/kernels/params.h"

namespace lorica {
struct TeamMember;
}

namespace lorica::kernels::cpu {

inline constexpr int64_t kPanelColumns = 16;
inline constexpr int64_t kTileRanks = 8;

// How LoraLinear cuts its work into register tiles. Zero: the kernel's own choice for the number
// of rows. Results are the same for every value; tests try many.
struct LinearTiling {
  int32_t rows = 0;    // most rows of a register tile
  int32_t panels = 0;  // most panels of 16 columns side by side: 1, 2 or 4
};

struct KernelTable {
  std::string_view isa;   // "avx2"
  std::string_view name;  // "cpu avx2"
  bool uses_dot = false;  // the bf16 dot of AVX512-BF16 for bf16 activations, else f32 FMA
  void (*lora_linear)(const LinearParams&, const LinearTiling&, const TeamMember&) = nullptr;
  void (*rms_norm)(const RmsNormParams&, const TeamMember&) = nullptr;
  void (*rope)(const RopeParams&, const TeamMember&) = nullptr;
  void (*kv_write)(const KvWriteParams&, const TeamMember&) = nullptr;
  void (*attention)(const AttentionParams&, const TeamMember&) = nullptr;
  void (*swi_glu)(const SwiGluParams&, const TeamMember&) = nullptr;
  void (*logit_stats)(const LogitStatsParams&, const TeamMember&) = nullptr;
};

// All tables that were compiled, narrowest set first, whether this machine runs them or not. Two
// are of "avx512": without and with the dot.
std::span<const KernelTable> AllKernelTables();
// Whether the processor has the table's instructions and, where it uses the dot, gives the bits of
// f32 FMA by it (tried once a process).
bool RunsHere(const KernelTable& table);

// Each file of kernels puts its functions into the table of an instruction set; null where that
// set was not compiled.
using FillKernels = void (*)(KernelTable*);
enum class Isa { kScalar, kSse4, kAvx2, kAvx512, kAvx512Bf16 };
FillKernels LinearKernels(Isa isa);
FillKernels PointwiseKernels(Isa isa);
FillKernels AttentionKernels(Isa isa);

// Floats of LinearParams::packed_x: of its part for plain weights, and in all. Then floats of
// attention scratch for a thread.
int64_t PlainInputFloats(int64_t rows, int64_t k);
int64_t PackedInputFloats(int64_t rows, int64_t k);
int64_t AttentionScratchFloats(const AttentionShape& shape);

}  // namespace lorica::kernels::cpu
