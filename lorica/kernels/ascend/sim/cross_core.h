// CrossCore: flags between the cores of a launch and whose turn it is to run. Each core has a
// thread, but one runs at a time: it hands the turn on when it waits for a flag or ends. When no
// core can run, that is a deadlock: it is reported and every wait returns, so that all end.
// Owned by Simulator::Launch; thread-safe by its one mutex.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "lorica/kernels/ascend/sim/core.h"

namespace lorica::ascend {

class CrossCore {
 public:
  static constexpr int kIds = 16;
  static constexpr size_t kCounterMax = 15;

  explicit CrossCore(std::vector<Core*> cores);

  void Begin(const Core& core);  // waits for its first turn
  void End(const Core& core);
  void Set(Core* core, int mode, int pipe, int id);
  // Waits until a set arrives; the clock is learnt by `pipe`.
  void Wait(Core* core, int pipe, int id);
  // What is still set or half arrived at the end.
  void ReportLeftOver(SimReport* report);

  // The sets that each wait took: Instr::dep_instr indexes it when dep_core is kMany.
  static constexpr int32_t kMany = -2;
  using Sets = std::vector<std::pair<int32_t, int32_t>>;  // (core, instr)
  const std::vector<Sets>& waits() const { return waits_; }

 private:
  struct Arrival {
    Clock clock;
    Sets sets;
  };
  enum class State : uint8_t { kReady, kBlocked, kDone };
  struct Member {
    Core* core = nullptr;
    State state = State::kReady;
    int waits_for = 0;
    int line = 0;
    std::array<std::deque<Arrival>, kIds> counters;                // what a wait takes
    std::array<std::array<std::deque<Arrival>, kIds>, 3> pending;  // by mode: not yet complete
  };

  Clock Export(const Core& core, int pipe) const;
  void Complete(Core* setter, int mode, int id, const std::vector<Member*>& group,
                const std::vector<Member*>& targets);
  void PassTurn(size_t from, std::unique_lock<std::mutex>* lock);
  bool CanRun(const Member& member) const;

  std::mutex mutex_;
  std::condition_variable turn_changed_;
  size_t turn_ = 0;
  bool aborted_ = false;
  std::vector<Member> members_;
  std::vector<Sets> waits_;
};

}  // namespace lorica::ascend
