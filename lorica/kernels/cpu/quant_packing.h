// Quantised weights into the panels of quant.h, and back. Pure functions; any thread.
#pragma once

#include <span>

#include "lorica/base/status.h"
#include "lorica/kernels/cpu/quant.h"
#include "lorica/kernels/params.h"

namespace lorica {
struct MachineContext;
}

namespace lorica::kernels::cpu {

// Reads 16 rows, packs them and drops them, on every thread of the context's pool. `storage` is
// quantised (quantize.h).
Result<Weight> PackQuantPanels(const RowSource& source, DType storage, MachineContext* context);
// Row n as the kernels multiply it.
void UnpackQuantRow(const Weight& weight, int64_t n, std::span<float> row);

}  // namespace lorica::kernels::cpu
