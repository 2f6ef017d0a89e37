#include "cli/progress.h"

#include <unistd.h>

#include <cstdio>

namespace lorica::cli {
namespace {

constexpr std::chrono::milliseconds kInterval(100);

}  // namespace

Progress::Progress(std::string what)
    : what_(std::move(what)), on_terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void Progress::Update(const std::string& detail) {
  if (!on_terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (shown_ && now - last_ < kInterval) return;
  last_ = now;
  shown_ = true;
  std::fprintf(stderr, "\r\033[K%s: %s", what_.c_str(), detail.c_str());
  std::fflush(stderr);
}

void PrintError(const std::string& message) {
  std::fprintf(stderr, "lorica: %s\n", message.c_str());
}

}  // namespace lorica::cli
