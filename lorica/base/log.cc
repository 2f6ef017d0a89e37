#include "lorica/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace lorica {
namespace {

spdlog::logger& Logger() {
  // Leaked on purpose: other threads may log while the process exits.
  static auto* logger = [] {
    auto* made = new spdlog::logger("lorica", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%H:%M:%S.%e %l %v");
    return made;
  }();
  return *logger;
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

void Log(LogLevel level, std::string_view message) { Logger().log(ToSpdlog(level), "{}", message); }

void SetLogLevel(LogLevel level) { Logger().set_level(ToSpdlog(level)); }

}  // namespace lorica
