// MachineFacts: what this machine is, read once at start. A plain value; travels inside
// MachineContext and is printed with every figure.
#pragma once

#include <cstdint>
#include <string>

namespace lorica {

struct MachineFacts {
  std::string cpu_model;
  int cores = 1;  // that this process may use
  bool has_avx2_fma = false;
  bool has_f16c = false;
  bool has_avx512 = false;  // F, BW, DQ, VL
  bool has_avx512_bf16 = false;
  bool has_avx512_vnni = false;
  int64_t memory_bytes = 0;            // physical
  int64_t available_memory_bytes = 0;  // free for new allocations at the time of the call
};

MachineFacts ReadMachineFacts();
// "AMD EPYC, 2 cores, AVX-512 BF16 VNNI, 23.4 GiB"
std::string Describe(const MachineFacts& facts);

}  // namespace lorica
