// The benchmark of adapters that come and go: many more adapters than the arena holds against all
// of them hot; steps beside a loader that publishes; and the dynamic path against merged models.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace lorica::bench {

struct AdaptersBenchOptions {
  int threads = 0;    // 0: every core
  std::string model;  // empty: synthetic, of SmolLM2-135M's shape
  std::string dtype = "bfloat16";
  int32_t adapters = 200;  // of rank 16 on all seven linears, in files
  int32_t room = 50;       // of them the arena holds
  int32_t clients = 16;
  int32_t requests = 200;
  int32_t prompt = 64;
  int32_t tokens = 64;
  double zipf = 1.0;
  int32_t steps = 2000;  // timed with publishing, and as many without
};

int RunAdaptersBench(const AdaptersBenchOptions& options, std::FILE* out);

}  // namespace lorica::bench
