#include "lorica/kernels/cpu/quant.h"

#include "lorica/base/machine.h"

namespace lorica::kernels::cpu {

const QuantKernels* QuantKernelsFor(Isa isa) {
  const QuantKernels* kernels = nullptr;
  if (isa == Isa::kSse4) kernels = Sse4QuantKernels();
  if (isa >= Isa::kAvx2) kernels = Avx2QuantKernels();
  if (isa >= Isa::kAvx512) {
    // Asked of the processor: sets with AVX-512 came before those with VNNI.
    static const bool kHasVnni = ReadMachineFacts().has_avx512_vnni;
    if (kHasVnni && VnniQuantKernels() != nullptr) kernels = VnniQuantKernels();
  }
  return kernels != nullptr ? kernels : ScalarQuantKernels();
}

}  // namespace lorica::kernels::cpu
