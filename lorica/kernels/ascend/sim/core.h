// Core: one AI Core (cube or vector; on arch 2002 both) during a launch: its memories, its
// instruction stream, flags, queues and what each pipe knows to be complete. Effects are applied in
// program order; hazards come from clocks. Owned by the Simulator; used by the thread that runs the
// kernel on it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lorica/kernels/ascend/sim/clock.h"
#include "lorica/kernels/ascend/sim/gm.h"
#include "lorica/kernels/ascend/sim/local_memory.h"
#include "lorica/kernels/ascend/sim/report.h"
#include "lorica/kernels/ascend/sim/soc_table.h"

namespace lorica::ascend {

// What bounds an instruction's duration.
enum class Path : uint8_t {
  kNone,
  kGmToL1,
  kGmToUb,
  kUbToGm,
  kL1ToL0A,
  kL1ToL0B,
  kL0cToL1,
  kL0cToGm,
  kL1ToGm,
  kL0cToUb,
  kUbToL1
};

struct Instr {
  enum class Kind : uint8_t { kWork, kSet, kWait, kBarrier };
  const char* name = "";
  int32_t line = 0;
  uint32_t index = 0;  // on its pipe, from 1
  Kind kind = Kind::kWork;
  uint8_t pipe = 0;
  Path path = Path::kNone;
  uint8_t unit_flag = 0;
  bool small_mmad = false;
  bool cross = false;      // a cross-core set or wait
  bool all_pipes = false;  // PipeBarrier<PIPE_ALL>
  float cycles = 0;        // fixed part
  int64_t bytes = 0;       // over `path`
  int32_t dep_core = -1;   // of a wait: the set that it takes
  int32_t dep_instr = -1;
  int32_t gm_buffer = -1;  // of the GM side, for L2
  Strip gm;
};

struct HardFlag {
  bool set = false;
  Clock clock;
  uint32_t instr = 0;
};

// One buffer of a queue.
struct QueueSlot {
  enum class State : uint8_t { kFree, kAllocated, kQueued, kTaken };
  State state = State::kFree;
  int64_t offset = 0;
  Clock clock;  // of the last hand-over
  int32_t set_instr = -1;
};
struct Queue {
  AscendC::TPosition position = AscendC::TPosition::VECIN;
  int64_t bytes = 0;
  bool plain = false;  // TBuf
  int line = 0;
  std::vector<QueueSlot> slots;
  std::vector<int32_t> order;  // queued slots, first in first out
};

class CrossCore;

class Core {
 public:
  Core(const SocSpec* soc, GlobalMemory* gm);
  void Reset(int32_t id, bool cube, bool vector, SimReport* report);

  // --- instructions
  Instr& Issue(int pipe, const char* name, int line, Instr::Kind kind = Instr::Kind::kWork);
  Instr& last() { return instrs[current]; }
  // Bounds, alignment, hazards, shadow of reads that reach S. False: leave the effect out.
  bool Access(const View& view, const Strip& strip, bool write, int64_t alignment);
  bool Bounds(const View& view, const Strip& strip, int64_t alignment);
  void Error(ErrorKind kind, const char* format, ...) __attribute__((format(printf, 3, 4)));
  std::string Describe(uint32_t instr) const;
  std::string DescribeRange(const View& view, int64_t begin, int64_t end) const;

  // Data and shadow of a view; shadow is null for initialised GM.
  uint8_t* Data(const View& view);
  uint8_t* Shadow(const View& view);
  // memcpy of data and shadow; uninitialised bytes that reach GM are an error.
  void Move(const View& to, int64_t to_offset, const View& from, int64_t from_offset,
            int64_t bytes);
  // To GM, atomically added when that mode is on, in elements of the view's type. `shadow` may be
  // null (all initialised).
  void StoreGm(const View& to, int64_t offset, const uint8_t* data, const uint8_t* shadow,
               int64_t bytes);

  LocalMemory& memory(Space space) { return memories[static_cast<size_t>(space)]; }

  // --- clocks
  Clock Completed(int pipe) const;  // when all issued on `pipe` are done
  void Learn(int pipe, const Clock& clock);
  uint32_t ClockId(int pipe);

  const SocSpec* soc;
  GlobalMemory* gm;
  SimReport* report = nullptr;
  int32_t id = 0;
  int32_t block = 0;
  int32_t blocks = 1;
  int32_t sub_block = 0;
  int32_t ratio = 1;
  bool cube = true;
  bool vector = false;
  bool auto_sync = false;
  int64_t least_row_blocks = 1;  // SocSpec::mmad_least_row_blocks, or the launch's own
  uint32_t cube_barrier = 0;     // instructions of PIPE_M at its last barrier
  CrossCore* cross = nullptr;    // null: this kernel type has no cross-core flags

  std::vector<Instr> instrs;
  uint32_t current = 0;
  std::array<std::vector<uint32_t>, kPipes> by_pipe;  // instruction of each index - 1
  std::array<Clock, kPipes> clocks;
  std::array<bool, kPipes> clock_changed{};
  std::array<uint32_t, kPipes> clock_ids{};
  std::vector<Clock> clock_log;
  std::array<LocalMemory, kSpaces> memories;
  HardFlag flags[kPipes][kPipes][8];
  uint8_t events[kPipes][kPipes] = {};  // allocated ids, a bit each
  bool atomic = false;
  Type atomic_type = Type::kFloat;
  std::vector<Queue> queues;
  std::array<int64_t, kSpaces> allocated{};           // by TPipe
  std::set<std::pair<int32_t, int64_t>> dirty_lines;  // of the scalar cache: (buffer, line)
  std::map<std::pair<int32_t, int64_t>, size_t> cached_lines;  // writes seen when read

 private:
  bool Hazards(const View& view, const Strip& strip, bool write);
  bool BarrierMissing(const Granule& granule) const;
  void ReportHazard(const View& view, int64_t granule, ErrorKind kind, int pipe, uint32_t index);
  bool Allowed(int pipe, uint32_t index, bool earlier_write, ErrorKind* kind);
};

// The core that runs on this thread, or null.
Core*& CurrentCore();
const char* SpaceName(Space space);

}  // namespace lorica::ascend
