#include "bench/report.h"

#include <cstdio>

namespace lorica::bench {
namespace {

Quartiles Scaled(const Quartiles& q, double factor) {
  return {q.best * factor, q.first * factor, q.median * factor, q.third * factor};
}

}  // namespace

void Report::AddTimes(const std::string& series, double x, double floor_seconds,
                      const Quartiles& seconds) {
  Add(series, x, "floor", "ms", floor_seconds * 1e3);
  Add({series, x, "time", "ms", Scaled(seconds, 1e3)});
  Add({series,
       x,
       "share",
       "%",
       {100.0 * floor_seconds / seconds.best, 100.0 * floor_seconds / seconds.third,
        100.0 * floor_seconds / seconds.median, 100.0 * floor_seconds / seconds.first}});
}

Status Report::Write(const std::string& path) const {
  if (path.empty()) return OkStatus();
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return Unavailable(path + ": cannot be written");
  std::fprintf(file, "# %s\ntable,series,x,figure,unit,median,first,third\n", machine_.c_str());
  for (const Figure& f : figures_) {
    std::fprintf(file, "%s,%s,%g,%s,%s,%.5g,%.5g,%.5g\n", table_.c_str(), f.series.c_str(), f.x,
                 f.name.c_str(), f.unit.c_str(), f.value.median, f.value.first, f.value.third);
  }
  const bool written = std::ferror(file) == 0;
  if (std::fclose(file) != 0 || !written) return Unavailable(path + ": cannot be written");
  return OkStatus();
}

int WriteReport(const Report& report, const std::string& path) {
  const Status status = report.Write(path);
  if (status.ok()) return 0;
  std::fprintf(stderr, "lorica: %s\n", status.message().c_str());
  return 1;
}

}  // namespace lorica::bench
