#include "lorica/kernels/open_backend.h"

#include <cstdlib>
#include <string>

#include "lorica/kernels/cpu/cpu_backend.h"
#include "lorica/kernels/reference_backend.h"

namespace lorica::kernels {

std::vector<std::string_view> RunnableIsas() {
  std::vector<std::string_view> names;
  for (const cpu::KernelTable& table : cpu::AllKernelTables()) {
    if (!cpu::RunsHere(table)) continue;
    if (names.empty() || names.back() != table.isa) names.push_back(table.isa);
  }
  return names;
}

Result<std::unique_ptr<Backend>> OpenCpuBackend(std::string_view isa) {
  const cpu::KernelTable* best = nullptr;
  bool known = false;
  for (const cpu::KernelTable& table : cpu::AllKernelTables()) {
    if (table.isa != isa) continue;
    known = true;
    if (cpu::RunsHere(table)) best = &table;
  }
  if (best != nullptr) {
    return std::unique_ptr<Backend>(std::make_unique<cpu::CpuBackend>(best));
  }
  if (known) {
    return FailedPrecondition("instruction set '" + std::string(isa) +
                              "' was asked for, but this processor does not have it");
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
