#include "bench/timing.h"

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>

#include "lorica/base/machine.h"

namespace lorica::bench {
namespace {

int64_t Switches(int who) {
  rusage usage = {};
  getrusage(who, &usage);
  return usage.ru_nivcsw;
}

// As the shell was given it.
std::string CommandLine() {
  std::string line;
  const char* isa = std::getenv("LORICA_ISA");
  if (isa != nullptr && *isa != '\0') line = "LORICA_ISA=" + std::string(isa) + " ";
  std::ifstream words("/proc/self/cmdline");
  std::string word;
  for (const char* space = ""; std::getline(words, word, '\0'); space = " ") line += space + word;
  return line;
}

}  // namespace

Quartiles Summarize(std::vector<double> sample) {
  std::sort(sample.begin(), sample.end());
  const auto at = [&](double part) {
    return sample[static_cast<size_t>(part * static_cast<double>(sample.size() - 1) + 0.5)];
  };
  return {sample.front(), at(0.25), at(0.5), at(0.75)};
}

double Percentile(std::vector<double> sample, double share) {
  const auto at = static_cast<size_t>(share * static_cast<double>(sample.size() - 1));
  std::nth_element(sample.begin(), sample.begin() + static_cast<ptrdiff_t>(at), sample.end());
  return sample[at];
}

double NowSeconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

int64_t InvoluntarySwitches() { return Switches(RUSAGE_SELF); }
int64_t ThreadInvoluntarySwitches() { return Switches(RUSAGE_THREAD); }

int ThreadsOf(const BenchOptions& options) {
  return options.threads > 0 ? options.threads : ReadMachineFacts().cores;
}

std::string MachineLine(int threads, std::string_view backend) {
  return "machine: " + Describe(ReadMachineFacts()) + "; backend " + std::string(backend) + ", " +
         std::to_string(threads) + " threads";
}

void PrintMachine(int threads, std::string_view backend, std::FILE* out) {
  std::fprintf(out, "command: %s\n%s\n", CommandLine().c_str(),
               MachineLine(threads, backend).c_str());
}

}  // namespace lorica::bench
