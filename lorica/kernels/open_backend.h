// OpenBackend: the backend for this machine, chosen once at start.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "lorica/base/status.h"
#include "lorica/kernels/backend.h"

namespace lorica::kernels {

// The best instruction set that this machine has, or the one named by the environment variable
// LORICA_ISA (scalar, sse4, avx2, avx512): INVALID_ARGUMENT for another name, FAILED_PRECONDITION
// for one that the machine lacks.
Result<std::unique_ptr<Backend>> OpenCpuBackend();
// One named set; what OpenCpuBackend and the tests use. "avx512" takes the bf16 dot where the
// processor has AVX512-BF16 and a self-test finds that it gives the bits of f32 FMA.
Result<std::unique_ptr<Backend>> OpenCpuBackend(std::string_view isa);
// Names of the sets that this machine runs, narrowest first.
std::vector<std::string_view> RunnableIsas();

// Scalar and row-major; `Sums::kF64` accumulates in double, as the oracle of tests.
enum class Sums { kF32, kF64 };
std::unique_ptr<Backend> OpenReferenceBackend(Sums sums);

}  // namespace lorica::kernels
