// SimReport: what a launch did wrong, as values: tests assert on them. Filled by the simulator on
// the launching thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lorica::ascend {

enum class ErrorKind : uint8_t {
  kOutOfBounds,
  kMisaligned,
  kOverCapacity,
  kBadArgument,     // a limit of an instruction
  kNoPath,          // this architecture has no such transfer or type
  kReadAfterWrite,  // hazards between pipes, or on one pipe without a barrier
  kWriteAfterRead,
  kWriteAfterWrite,
  kSmallMmad,  // PipeBarrier<PIPE_M> missing after a small Mmad
  kDoubleSet,
  kWaitWithoutSet,
  kFlagLeftOver,
  kGmRace,            // two cores, no order
  kFloatAtomicOrder,  // float atomics of two cores on one element
  kCounterOverflow,   // a cross-core counter past 15
  kDeadlock,
  kQueueProtocol,
  kUninitialised,  // reached GM, S or a scalar
  kScalarCache,    // stale or unwritten line of the scalar cache
};
const char* ErrorKindName(ErrorKind kind);

struct SimError {
  ErrorKind kind = ErrorKind::kBadArgument;
  int32_t core = 0;
  std::string message;  // pipe, buffer range, both instructions
};

struct SimReport {
  std::vector<SimError> errors;  // the first kMaxErrors
  int64_t error_count = 0;
  int64_t instructions = 0;
  int64_t gemv_mmads = 0;  // Mmad with m == 1
  static constexpr size_t kMaxErrors = 64;

  bool ok() const { return error_count == 0; }
  bool Has(ErrorKind kind) const;
  std::string ToString() const;
};

}  // namespace lorica::ascend
