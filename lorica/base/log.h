// The log: one line a call, to stderr, with time and level. The only singleton; any thread.
#pragma once

#include <string_view>

namespace lorica {

enum class LogLevel { kInfo, kWarning, kError };

void Log(LogLevel level, std::string_view message);
inline void LogInfo(std::string_view message) { Log(LogLevel::kInfo, message); }
inline void LogWarning(std::string_view message) { Log(LogLevel::kWarning, message); }
inline void LogError(std::string_view message) { Log(LogLevel::kError, message); }

// Messages below `level` are dropped; kInfo at start.
void SetLogLevel(LogLevel level);

}  // namespace lorica
