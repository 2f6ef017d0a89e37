// Timing of calls in turn, and what is said about them. Shares and ratios are judged within one
// run; absolute times are only printed. Single-threaded use.
#pragma once

#include <cstdint>
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
// How often this process was put off a core so far.
int64_t InvoluntarySwitches();

// Seconds of one call that was not interrupted, of at most twenty tries.
template <typename Call>
double Seconds(const Call& call) {
  double seconds = 0.0;
  for (int i = 0; i < 20; ++i) {
    const int64_t switches = InvoluntarySwitches();
    const double begin = NowSeconds();
    call();
    seconds = NowSeconds() - begin;
    if (InvoluntarySwitches() == switches) break;
  }
  return seconds;
}

// Threads to use, and one line that names the machine.
int ThreadsOf(const BenchOptions& options);
void PrintMachine(int threads, std::string_view backend, std::FILE* out);

}  // namespace lorica::bench
