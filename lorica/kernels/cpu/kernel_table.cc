#include "lorica/kernels/cpu/kernel_table.h"

#include <vector>

#include "lorica/base/machine.h"
#include "lorica/kernels/cpu/dot.h"

namespace lorica::kernels::cpu {
namespace {

struct IsaName {
  Isa isa;
  std::string_view isa_name;
  std::string_view name;
};
constexpr IsaName kNames[] = {
    {Isa::kScalar, "scalar", "cpu scalar"},
    {Isa::kSse4, "sse4", "cpu sse4"},
    {Isa::kAvx2, "avx2", "cpu avx2"},
    {Isa::kAvx512, "avx512", "cpu avx512"},
    {Isa::kAvx512Bf16, "avx512", "cpu avx512 bf16"},
};

std::vector<KernelTable> MakeTables() {
  std::vector<KernelTable> tables;
  for (const IsaName& entry : kNames) {
    const FillKernels fills[] = {LinearKernels(entry.isa), PointwiseKernels(entry.isa),
                                 AttentionKernels(entry.isa)};
    if (fills[0] == nullptr) continue;
    if (entry.isa == Isa::kAvx512Bf16 && CompiledDotKernels() == nullptr) continue;
    KernelTable table;
    table.isa = entry.isa_name;
    table.name = entry.name;
    table.uses_dot = entry.isa == Isa::kAvx512Bf16;
    for (const FillKernels fill : fills) fill(&table);
    tables.push_back(table);
  }
  return tables;
}

bool HasInstructions(std::string_view isa, const MachineFacts& facts) {
  if (isa == "avx512") return facts.has_avx512 && facts.has_avx2_fma && facts.has_f16c;
  if (isa == "avx2") return facts.has_avx2_fma && facts.has_f16c;
#if defined(__x86_64__)
  if (isa == "sse4") return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
#endif
  return isa == "scalar";
}

}  // namespace

bool RunsHere(const KernelTable& table) {
  static const MachineFacts kFacts = ReadMachineFacts();
  static const bool kDotRuns = kFacts.has_avx512_bf16 && DotEqualsFma();
  return HasInstructions(table.isa, kFacts) && (!table.uses_dot || kDotRuns);
}

std::span<const KernelTable> AllKernelTables() {
  static const std::vector<KernelTable> kTables = MakeTables();
  return kTables;
}

}  // namespace lorica::kernels::cpu
