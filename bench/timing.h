// Timing of calls in turn, and what is said about them. Shares and ratios are judged within one
// run; absolute times are only printed. Single-threaded use.
#pragma once

#include <cstdio>
#include <string_view>
#include <vector>

namespace lorica::bench {

struct BenchOptions {
  int threads = 0;  // 0: every core
  int rounds = 15;
};

struct Quartiles {
  double best = 0.0;
  double first = 0.0;
  double median = 0.0;
  double third = 0.0;
};
// Of a sample that is not empty.
Quartiles Summarize(std::vector<double> sample);

double NowSeconds();
// Seconds of one call.
template <typename Call>
double Seconds(const Call& call) {
  const double begin = NowSeconds();
  call();
  return NowSeconds() - begin;
}
// Threads to use, and one line that names the machine.
int ThreadsOf(const BenchOptions& options);
void PrintMachine(int threads, std::string_view backend, std::FILE* out);

}  // namespace lorica::bench
