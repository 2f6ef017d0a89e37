// GlobalMemory: the registered GM buffers of a simulator and, for one launch, every access to them,
// so that races between cores and hazards between the pipes of one core are found at its end.
// Owned by the Simulator; one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lorica/kernels/ascend/sim/clock.h"
#include "lorica/kernels/ascend/sim/local_memory.h"
#include "lorica/kernels/ascend/sim/simulator.h"

namespace lorica::ascend {

// One strip of one instruction. Offsets from the buffer's start.
struct GmAccess {
  Strip strip;
  int32_t core = 0;
  uint32_t instr = 0;  // in Core::instrs
  uint32_t index = 0;  // on its pipe
  uint32_t clock = 0;  // in Core::clock_log
  uint8_t pipe = 0;
  bool write = false;
  bool atomic = false;
  Type atomic_type = Type::kFloat;
};

struct GmBuffer {
  std::string name;
  uint8_t* data = nullptr;
  int64_t bytes = 0;
  int32_t id = 0;
  bool in_l2 = false;
  std::vector<uint8_t> shadow;  // empty: all initialised
  std::vector<GmAccess> reads;
  std::vector<GmAccess> writes;
  std::vector<bool> resident;  // 512-byte lines seen in this launch's timeline
};

class GlobalMemory {
 public:
  void Add(std::string name, void* data, int64_t bytes, GmOptions options);
  void Remove(const void* data);
  void Clear() { buffers_.clear(); }
  void BeginLaunch();
  // The buffer that holds `address`, or null.
  GmBuffer* Find(const uint8_t* address);
  GmBuffer* ById(int32_t id);
  std::map<uintptr_t, std::unique_ptr<GmBuffer>>& buffers() { return buffers_; }

 private:
  std::map<uintptr_t, std::unique_ptr<GmBuffer>> buffers_;  // by end address
  std::map<int32_t, GmBuffer*> by_id_;
  GmBuffer* last_ = nullptr;
  int32_t next_id_ = 1;
};

class Core;
// Pairs of accesses that overlap, write and are in no order: appended to the report.
void CheckGmRaces(GlobalMemory* gm, const std::vector<std::unique_ptr<Core>>& cores,
                  SimReport* report);

}  // namespace lorica::ascend
