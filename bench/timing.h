// Timing of calls in turn, and what is said about them. Shares and ratios are judged within one
// run; absolute times are only printed. Single-threaded use.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace lorica::bench {

struct BenchOptions {
  int threads = 0;  // 0: every core
  int rounds = 15;
  std::string weights =
      {};  // linear: "int8", "q8_0", "q4_0", "q4_k", "q6_k" or "q4" against bf16; empty: bf16 alone
  std::string csv = {};  // a file for the figures; empty: none
};

struct Quartiles {
  double best = 0.0;
  double first = 0.0;
  double median = 0.0;
  double third = 0.0;
};
// Of a sample that is not empty.
Quartiles Summarize(std::vector<double> sample);
double Percentile(std::vector<double> sample, double share);

double NowSeconds();
// Processor time of the calling thread.
double ThreadSeconds();
// How often this process was put off a core so far; or the calling thread alone.
int64_t InvoluntarySwitches();
int64_t ThreadInvoluntarySwitches();

// Seconds of one call that was not interrupted, of at most twenty tries. A call on one thread is
// timed by its processor time: steadier where others compute too.
template <typename Call>
double Seconds(int threads, const Call& call) {
  const auto now = threads == 1 ? ThreadSeconds : NowSeconds;
  double seconds = 0.0;
  for (int i = 0; i < 20; ++i) {
    const int64_t switches = InvoluntarySwitches();
    const double begin = now();
    call();
    seconds = now() - begin;
    if (InvoluntarySwitches() == switches) break;
  }
  return seconds;
}

// Threads to use, and one line that names the machine.
int ThreadsOf(const BenchOptions& options);
std::string MachineLine(int threads, std::string_view backend);
// Beside it the command that was given, to be repeated.
void PrintMachine(int threads, std::string_view backend, std::FILE* out);

}  // namespace lorica::bench
