// Timeline: the modelled cycles of a launch: every pipe in order, the rates of soc_table, memory
// and L2 shared by the cores. Cycles are modelled, never measured on hardware. Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "lorica/kernels/ascend/sim/types.h"

namespace lorica::ascend {

constexpr int kPipes = 7;
const char* PipeName(int pipe);  // "MTE2"

struct CoreTime {
  bool vector_core = false;
  double cycles = 0;                  // end of its last instruction
  std::array<double, kPipes> busy{};  // by pipe
};

struct TraceEvent {
  int32_t core = 0;
  int8_t pipe = 0;
  const char* name = "";
  int32_t line = 0;
  double begin = 0;  // cycles
  double end = 0;
  int64_t bytes = 0;
};

struct Timeline {
  double cycles = 0;  // of the slowest core
  std::vector<CoreTime> cores;
  std::array<double, kPipes> busy{};  // of the slowest core
  int64_t memory_bytes = 0;           // read from memory past L2
  int64_t l2_bytes = 0;               // all GM reads
  int64_t written_bytes = 0;          // to GM
  double memory_floor_cycles = 0;     // (memory + written bytes) / the chip's memory rate
  std::vector<TraceEvent> events;     // with LaunchOptions::trace

  // Chrome trace events, as Perfetto reads them; 1 unit = 1 cycle.
  std::string ToTraceJson() const;
  // One row a core, columns as msprof names them: aic_mac_time ... in cycles, and ratios.
  std::string ToCsv() const;
};

}  // namespace lorica::ascend
