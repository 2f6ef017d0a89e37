#include "lorica/kernels/ascend/sim/report.h"

namespace lorica::ascend {

const char* ErrorKindName(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kOutOfBounds:
      return "out of bounds";
    case ErrorKind::kMisaligned:
      return "misaligned";
    case ErrorKind::kOverCapacity:
      return "over capacity";
    case ErrorKind::kBadArgument:
      return "bad argument";
    case ErrorKind::kNoPath:
      return "no such path";
    case ErrorKind::kReadAfterWrite:
      return "read after write";
    case ErrorKind::kWriteAfterRead:
      return "write after read";
    case ErrorKind::kWriteAfterWrite:
      return "write after write";
    case ErrorKind::kSmallMmad:
      return "small Mmad without a barrier";
    case ErrorKind::kDoubleSet:
      return "flag set twice";
    case ErrorKind::kWaitWithoutSet:
      return "wait without set";
    case ErrorKind::kFlagLeftOver:
      return "flag left over";
    case ErrorKind::kGmRace:
      return "race of cores in GM";
    case ErrorKind::kFloatAtomicOrder:
      return "float atomics of two cores";
    case ErrorKind::kCounterOverflow:
      return "cross-core counter overflow";
    case ErrorKind::kDeadlock:
      return "deadlock";
    case ErrorKind::kQueueProtocol:
      return "queue protocol";
    case ErrorKind::kUninitialised:
      return "uninitialised data";
    case ErrorKind::kScalarCache:
      return "scalar cache";
  }
  return "?";
}

bool SimReport::Has(ErrorKind kind) const {
  for (const SimError& error : errors) {
    if (error.kind == kind) return true;
  }
  return false;
}

std::string SimReport::ToString() const {
  std::string text =
      std::to_string(error_count) + " errors, " + std::to_string(instructions) + " instructions\n";
  for (const SimError& error : errors) {
    text += std::string("core ") + std::to_string(error.core) + ": " + ErrorKindName(error.kind) +
            ": " + error.message + "\n";
  }
  return text;
}

}  // namespace lorica::ascend
