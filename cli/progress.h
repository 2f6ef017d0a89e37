// Progress: one line on a terminal that long work rewrites; nothing in a pipe. One thread.
#pragma once

#include <chrono>
#include <string>

namespace lorica::cli {

class Progress {
 public:
  explicit Progress(std::string what);
  // Wipes the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shows "what: detail", at most ten times a second.
  void Update(const std::string& detail);

 private:
  std::string what_;
  bool on_terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_;
};

// Prints "lorica: message" to stderr.
void PrintError(const std::string& message);

}  // namespace lorica::cli
