// LORICA_CHECK ends the process on a broken contract of our own; LORICA_DCHECK does so in debug
// builds only, for inner loops. Input from outside never reaches either: that is Status.
#pragma once

namespace lorica {

[[noreturn]] void CheckFailed(const char* file, int line, const char* expression);

}  // namespace lorica

#define LORICA_CHECK(condition)                                              \
  do {                                                                       \
    if (!(condition)) ::lorica::CheckFailed(__FILE__, __LINE__, #condition); \
  } while (false)

#ifdef NDEBUG
#define LORICA_DCHECK(condition)             \
  do {                                       \
    if (false) static_cast<void>(condition); \
  } while (false)
#else
#define LORICA_DCHECK(condition) LORICA_CHECK(condition)
#endif
