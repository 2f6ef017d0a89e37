// The benchmark of adapters that come and go: many more adapters than the arena holds against all
// of them hot; steps beside a loader that publishes; and the dynamic path against merged models.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace lorica::bench {

struct AdaptersBenchOptions {
  std::string table;      // tiers, active, steps or paths; empty: all of them
  int threads = 0;        // 0: every core
  std::string model;      // empty: synthetic, of SmolLM2-135M's shape
  int32_t layers = 30;    // of the synthetic
  int32_t vocab = 49152;  // likewise
  std::string dtype = "bfloat16";
  std::string folder;      // keeps the adapters for the next run; empty: a new one, removed
  int32_t adapters = 200;  // of rank 16 on all seven linears, in files
  int32_t contents = 0;    // distinct files of factors that they share out; 0: one each
  int32_t room = 50;       // of them the arena holds
  double active = 0.2;     // part of the adapters that is asked for, in the table of that name
  int32_t clients = 16;
  int32_t requests = 200;
  int32_t turns = 2;   // in which the requests of two engines are served
  int32_t settle = 0;  // requests of one token before them, untimed
  int32_t prompt = 64;
  int32_t tokens = 64;
  double zipf = 1.0;
  int32_t steps = 2000;  // timed with publishing, and as many without
};

int RunAdaptersBench(const AdaptersBenchOptions& options, std::FILE* out);

}  // namespace lorica::bench
