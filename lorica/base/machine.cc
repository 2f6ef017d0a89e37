#include "lorica/base/machine.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <sched.h>

#include <cstdio>
#include <fstream>

namespace lorica {
namespace {

std::string CpuModel() {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  while (std::getline(info, line)) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t colon = line.find(':');
    if (colon != std::string::npos && colon + 2 <= line.size()) return line.substr(colon + 2);
  }
  return "unknown processor";
}

// A field of /proc/meminfo, in bytes; 0 if it is not there.
int64_t MemInfoBytes(const std::string& field) {
  std::ifstream info("/proc/meminfo");
  std::string name;
  int64_t kib = 0;
  std::string unit;
  while (info >> name >> kib) {
    std::getline(info, unit);
    if (name == field + ":") return kib * 1024;
  }
  return 0;
}

}  // namespace

MachineFacts ReadMachineFacts() {
  MachineFacts facts;
  facts.cpu_model = CpuModel();
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) facts.cores = CPU_COUNT(&set);
#if defined(__x86_64__)
  __builtin_cpu_init();
  facts.has_avx2_fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  // Clang 14 has no name for F16C. AVX2 says already that the system saves the registers.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  facts.has_f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  facts.has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                     __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  facts.has_avx512_bf16 = facts.has_avx512 && __builtin_cpu_supports("avx512bf16");
  facts.has_avx512_vnni = facts.has_avx512 && __builtin_cpu_supports("avx512vnni");
#endif
  facts.memory_bytes = MemInfoBytes("MemTotal");
  facts.available_memory_bytes = MemInfoBytes("MemAvailable");
  return facts;
}

std::string Describe(const MachineFacts& facts) {
  std::string isa = facts.has_avx512 ? "AVX-512" : facts.has_avx2_fma ? "AVX2" : "no AVX2";
  if (facts.has_avx512_bf16) isa += " BF16";
  if (facts.has_avx512_vnni) isa += " VNNI";
  char memory[32];
  std::snprintf(memory, sizeof(memory), "%.1f GiB",
                static_cast<double>(facts.memory_bytes) / static_cast<double>(1 << 30));
  return facts.cpu_model + ", " + std::to_string(facts.cores) +
         (facts.cores == 1 ? " core, " : " cores, ") + isa + ", " + memory;
}

}  // namespace lorica
