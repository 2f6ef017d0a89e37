#include "lorica/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace lorica {

void CheckFailed(const char* file, int line, const char* expression) {
  std::fprintf(stderr, "%s:%d: broken contract: %s\n", file, line, expression);
  std::abort();
}

}  // namespace lorica
