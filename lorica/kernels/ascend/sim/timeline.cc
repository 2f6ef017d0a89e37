#include "lorica/kernels/ascend/sim/timeline.h"

#include <cstdio>

namespace lorica::ascend {

const char* PipeName(int pipe) {
  static constexpr const char* kNames[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX"};
  return pipe >= 0 && pipe < kPipes ? kNames[pipe] : "?";
}

std::string Timeline::ToTraceJson() const {
  std::string text = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  char line[320];
  for (size_t c = 0; c < cores.size(); ++c) {
    std::snprintf(
        line, sizeof(line),
        "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%zu,\"args\":{\"name\":\"%s core "
        "%zu (modelled cycles)\"}},\n",
        c, cores[c].vector_core ? "AIV" : "AIC", c);
    text += line;
    for (int p = 0; p < kPipes; ++p) {
      std::snprintf(line, sizeof(line),
                    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%zu,\"tid\":%d,\"args\":{"
                    "\"name\":\"%s\"}},\n",
                    c, p, PipeName(p));
      text += line;
    }
  }
  for (const TraceEvent& event : events) {
    std::snprintf(line, sizeof(line),
                  "{\"ph\":\"X\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,"
                  "\"args\":{\"line\":%d,\"bytes\":%lld}},\n",
                  event.name, event.core, event.pipe, event.begin, event.end - event.begin,
                  event.line, static_cast<long long>(event.bytes));
    text += line;
  }
  std::snprintf(line, sizeof(line),
                "{\"ph\":\"M\",\"name\":\"cycles\",\"pid\":0,\"args\":{\"total\":%.0f}}]}\n",
                cycles);
  return text + line;
}

std::string Timeline::ToCsv() const {
  std::string text =
      "core,core_type,total_cycles,mac_ratio,scalar_ratio,mte1_ratio,mte2_ratio,mte3_ratio,"
      "fixpipe_ratio,vec_ratio\n";
  static constexpr int kOrder[] = {PIPE_M,    PIPE_S,   PIPE_MTE1, PIPE_MTE2,
                                   PIPE_MTE3, PIPE_FIX, PIPE_V};
  char field[64];
  for (size_t c = 0; c < cores.size(); ++c) {
    std::snprintf(field, sizeof(field), "%zu,%s,%.0f", c, cores[c].vector_core ? "aiv" : "aic",
                  cores[c].cycles);
    text += field;
    for (const int pipe : kOrder) {
      std::snprintf(
          field, sizeof(field), ",%.3f",
          cores[c].cycles > 0 ? cores[c].busy[static_cast<size_t>(pipe)] / cores[c].cycles : 0.0);
      text += field;
    }
    text += "\n";
  }
  return text;
}

}  // namespace lorica::ascend
