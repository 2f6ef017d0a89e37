// Flags, barriers, cross-core flags and event ids of core_api.h.
#include "lorica/kernels/ascend/sim/cross_core.h"
#include "lorica/kernels/ascend/sim/op.h"

namespace lorica::ascend {
namespace {

HardFlag* FlagOf(Core* core, int from, int to, int id) {
  if (id < 0 || id > 7) {
    core->Error(ErrorKind::kBadArgument, "%s: flag id %d is not in 0..7",
                core->Describe(core->current).c_str(), id);
    return nullptr;
  }
  return &core->flags[from][to][id];
}

}  // namespace

void SetFlagOp(int from, int to, int id, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  core->Issue(from, "SetFlag", line, Instr::Kind::kSet);
  HardFlag* flag = FlagOf(core, from, to, id);
  if (flag == nullptr) return;
  if (flag->set) {
    core->Error(ErrorKind::kDoubleSet, "%s: flag %s_%s %d is set already by %s",
                core->Describe(core->current).c_str(), PipeName(from), PipeName(to), id,
                core->Describe(flag->instr).c_str());
  }
  flag->set = true;
  flag->clock = core->Completed(from);
  flag->instr = core->current;
}

void WaitFlagOp(int from, int to, int id, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  core->Issue(to, "WaitFlag", line, Instr::Kind::kWait);
  HardFlag* flag = FlagOf(core, from, to, id);
  if (flag == nullptr) return;
  if (!flag->set) {
    core->Error(ErrorKind::kWaitWithoutSet, "%s: nobody has set flag %s_%s %d",
                core->Describe(core->current).c_str(), PipeName(from), PipeName(to), id);
    return;
  }
  flag->set = false;
  core->Learn(to, flag->clock);
  core->last().dep_core = core->id;
  core->last().dep_instr = static_cast<int32_t>(flag->instr);
}

void BarrierOp(int pipe, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  if (pipe != PIPE_ALL) {
    core->Issue(pipe, "PipeBarrier", line, Instr::Kind::kBarrier);
    if (pipe == PIPE_S) {
      core->Error(ErrorKind::kBadArgument, "%s: PIPE_S has no barrier",
                  core->Describe(core->current).c_str());
      return;
    }
    core->Learn(pipe, core->Completed(pipe));
    if (pipe == PIPE_M) core->cube_barrier = core->last().index;
    return;
  }
  core->Issue(PIPE_S, "PipeBarrier<PIPE_ALL>", line, Instr::Kind::kBarrier).all_pipes = true;
  Clock all;
  for (int p = 0; p < kPipes; ++p) all.Join(core->Completed(p));
  for (int p = 0; p < kPipes; ++p) core->Learn(p, all);
  core->cube_barrier = all.own[PIPE_M];
}

void CrossSetOp(int mode, int pipe, int id, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  core->Issue(pipe, "CrossCoreSetFlag", line, Instr::Kind::kSet).cross = true;
  if (core->cross == nullptr || id < 0 || id >= CrossCore::kIds || mode > 2) {
    core->Error(core->cross == nullptr ? ErrorKind::kNoPath : ErrorKind::kBadArgument,
                core->cross == nullptr ? "%s: this kernel type has no cross-core flags (id %d)"
                                       : "%s: mode must be 0..2 and id %d in 0..15",
                core->Describe(core->current).c_str(), id);
    return;
  }
  core->cross->Set(core, mode, pipe, id);
}

void CrossWaitOp(int pipe, int id, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  core->Issue(pipe, "CrossCoreWaitFlag", line, Instr::Kind::kWait).cross = true;
  if (core->cross == nullptr || id < 0 || id >= CrossCore::kIds) {
    core->Error(core->cross == nullptr ? ErrorKind::kNoPath : ErrorKind::kBadArgument,
                core->cross == nullptr ? "%s: this kernel type has no cross-core flags (id %d)"
                                       : "%s: id %d is not in 0..15",
                core->Describe(core->current).c_str(), id);
    return;
  }
  core->cross->Wait(core, pipe, id);
}

// The ids that the vendor's SyncAll occupies: 11 to 13 here.
void SyncAllOp(bool aiv_only, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  BarrierOp(PIPE_ALL, line);
  const int out = core->cube ? PIPE_FIX : PIPE_MTE3;
  if (aiv_only || core->ratio == 0) {
    CrossSetOp(0, out, 11, line);
    CrossWaitOp(PIPE_S, 11, line);
    return;
  }
  if (core->cube) {
    CrossWaitOp(PIPE_S, 12, line);
    CrossSetOp(0, out, 11, line);
    CrossWaitOp(PIPE_S, 11, line);
    CrossSetOp(2, out, 13, line);
  } else {
    CrossSetOp(2, out, 12, line);
    CrossWaitOp(PIPE_S, 13, line);
  }
}

int32_t EventAlloc(int from, int to, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return 0;
  for (int id = 0; id < 6; ++id) {
    if ((core->events[from][to] & (1 << id)) != 0) continue;
    core->events[from][to] = static_cast<uint8_t>(core->events[from][to] | (1 << id));
    return id;
  }
  core->Error(ErrorKind::kOverCapacity, "AllocEventID (line %d): all ids of %s_%s are taken", line,
              PipeName(from), PipeName(to));
  return 0;
}

int32_t EventFetch(int from, int to, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return 0;
  for (int id = 0; id < 6; ++id) {
    if ((core->events[from][to] & (1 << id)) == 0) return id;
  }
  core->Error(ErrorKind::kOverCapacity, "FetchEventID (line %d): all ids of %s_%s are taken", line,
              PipeName(from), PipeName(to));
  return 0;
}

void EventRelease(int from, int to, int32_t id, int line) {
  Core* core = CurrentCore();
  if (core == nullptr || id < 0 || id > 7) return;
  if ((core->events[from][to] & (1 << id)) == 0) {
    core->Error(ErrorKind::kQueueProtocol, "ReleaseEventID (line %d): id %d of %s_%s is free", line,
                id, PipeName(from), PipeName(to));
  }
  core->events[from][to] = static_cast<uint8_t>(core->events[from][to] & ~(1 << id));
}

int64_t BlockIndex() {
  const Core* core = CurrentCore();
  if (core == nullptr) return 0;
  return core->cube || core->ratio <= 1 ? core->block
                                        : int64_t{core->block} * core->ratio + core->sub_block;
}
int64_t BlockCount() { return CurrentCore() == nullptr ? 1 : CurrentCore()->blocks; }
int64_t SubBlockIndex() { return CurrentCore() == nullptr ? 0 : CurrentCore()->sub_block; }
int64_t TaskRatio() {
  return CurrentCore() == nullptr || CurrentCore()->ratio == 0 ? 1 : CurrentCore()->ratio;
}
bool OnCube() { return CurrentCore() == nullptr || CurrentCore()->cube; }
bool OnVector() { return CurrentCore() != nullptr && CurrentCore()->vector; }

}  // namespace lorica::ascend
