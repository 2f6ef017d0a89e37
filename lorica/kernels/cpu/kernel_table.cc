#include "lorica/kernels/cpu/kernel_table.h"

#include <vector>

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
};

std::vector<KernelTable> MakeTables() {
  std::vector<KernelTable> tables;
  for (const IsaName& entry : kNames) {
    const FillKernels fills[] = {LinearKernels(entry.isa), PointwiseKernels(entry.isa),
                                 AttentionKernels(entry.isa)};
    if (fills[0] == nullptr) continue;
    KernelTable table;
    table.isa = entry.isa_name;
    table.name = entry.name;
    for (const FillKernels fill : fills) fill(&table);
    tables.push_back(table);
  }
  return tables;
}

}  // namespace

std::span<const KernelTable> AllKernelTables() {
  static const std::vector<KernelTable> kTables = MakeTables();
  return kTables;
}

}  // namespace lorica::kernels::cpu
