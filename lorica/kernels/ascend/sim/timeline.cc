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
  struct Column {
    const char* name;
    bool vector;
    int pipe;
  };
  static constexpr Column kColumns[] = {
      {"aic_mac_ratio", false, PIPE_M},     {"aic_scalar_ratio", false, PIPE_S},
      {"aic_mte1_ratio", false, PIPE_MTE1}, {"aic_mte2_ratio", false, PIPE_MTE2},
      {"aic_mte3_ratio", false, PIPE_MTE3}, {"aic_fixpipe_ratio", false, PIPE_FIX},
      {"aiv_vec_ratio", true, PIPE_V},      {"aiv_scalar_ratio", true, PIPE_S},
      {"aiv_mte2_ratio", true, PIPE_MTE2},  {"aiv_mte3_ratio", true, PIPE_MTE3},
  };
  std::string text = "core,core_type,total_cycles";
  for (const Column& column : kColumns) text += std::string(",") + column.name;
  text += "\n";
  char field[64];
  for (size_t c = 0; c < cores.size(); ++c) {
    const CoreTime& core = cores[c];
    std::snprintf(field, sizeof(field), "%zu,%s,%.0f", c, core.vector_core ? "aiv" : "aic",
                  core.cycles);
    text += field;
    for (const Column& column : kColumns) {
      const double busy = core.busy[static_cast<size_t>(column.pipe)];
      const bool has = column.vector == core.vector_core && core.cycles > 0;
      std::snprintf(field, sizeof(field), ",%.3f", has ? busy / core.cycles : 0.0);
      text += field;
    }
    text += "\n";
  }
  return text;
}

}  // namespace lorica::ascend
