#include "lorica/kernels/open_backend.h"

#include <cstdlib>
#include <string>

#include "lorica/base/machine.h"
#include "lorica/kernels/cpu/cpu_backend.h"
#include "lorica/kernels/reference_backend.h"

namespace lorica::kernels {
namespace {

bool Runs(std::string_view isa, const MachineFacts& facts) {
  if (isa == "avx512") return facts.has_avx512 && facts.has_avx2_fma && facts.has_f16c;
  if (isa == "avx2") return facts.has_avx2_fma && facts.has_f16c;
#if defined(__x86_64__)
  if (isa == "sse4") return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
#endif
  return isa == "scalar";
}

}  // namespace

std::vector<std::string_view> RunnableIsas() {
  const MachineFacts facts = ReadMachineFacts();
  std::vector<std::string_view> names;
  for (const cpu::KernelTable& table : cpu::AllKernelTables()) {
    if (Runs(table.isa, facts)) names.push_back(table.isa);
  }
  return names;
}

Result<std::unique_ptr<Backend>> OpenCpuBackend(std::string_view isa) {
  for (const cpu::KernelTable& table : cpu::AllKernelTables()) {
    if (table.isa != isa) continue;
    if (!Runs(isa, ReadMachineFacts())) {
      return FailedPrecondition("instruction set '" + std::string(isa) +
                                "' was asked for, but this processor does not have it");
    }
    return std::unique_ptr<Backend>(std::make_unique<cpu::CpuBackend>(&table));
  }
  return InvalidArgument("unknown instruction set '" + std::string(isa) +
                         "': expected scalar, sse4, avx2 or avx512");
}

Result<std::unique_ptr<Backend>> OpenCpuBackend() {
  const char* forced = std::getenv("LORICA_ISA");
  if (forced != nullptr && *forced != '\0') {
    Result<std::unique_ptr<Backend>> backend = OpenCpuBackend(std::string_view(forced));
    if (!backend.ok()) return backend.status().WithContext("LORICA_ISA");
    return backend;
  }
  return OpenCpuBackend(RunnableIsas().back());
}

std::unique_ptr<Backend> OpenReferenceBackend(Sums sums) {
  return std::make_unique<ReferenceBackend>(sums);
}

}  // namespace lorica::kernels
