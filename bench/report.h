// Report: the figures of a benchmark as lines for programs, beside the text that it prints for
// people. Owned by one benchmark; not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/timing.h"
#include "lorica/base/status.h"

namespace lorica::bench {

// One figure of a table: of series "bf16 dot" at x = 4 rows the "share" in "%".
struct Figure {
  std::string series;
  double x = 0.0;
  std::string name;
  std::string unit;
  Quartiles value;
};

class Report {
 public:
  // The machine's line, and the table's name: "linear".
  Report(std::string machine, std::string table)
      : machine_(std::move(machine)), table_(std::move(table)) {}
  void Add(Figure figure) { figures_.push_back(std::move(figure)); }
  // A figure that has no spread.
  void Add(const std::string& series, double x, const std::string& name, const std::string& unit,
           double value) {
    Add({series, x, name, unit, {value, value, value, value}});
  }
  // Of times in seconds: in milliseconds, the floor, and the share of it that was reached.
  void AddTimes(const std::string& series, double x, double floor_seconds,
                const Quartiles& seconds);
  // CSV under a comment that names the machine; `path` empty: nothing is written.
  Status Write(const std::string& path) const;

 private:
  std::string machine_;
  std::string table_;
  std::vector<Figure> figures_;
};

// An exit code, the reason on stderr.
int WriteReport(const Report& report, const std::string& path);

}  // namespace lorica::bench
