// MachineContext: machine facts, threads, memory accounts and trace as one value that is handed
// down, so that two engines live in one process. The engine's owner owns it and keeps it alive
// longer than everything built on it.
#pragma once

#include <chrono>

#include "lorica/base/machine.h"
#include "lorica/base/memory_tag.h"
#include "lorica/base/thread_pool.h"
#include "lorica/base/trace.h"

namespace lorica {

struct MachineContext {
  explicit MachineContext(int threads) : facts(ReadMachineFacts()), pool(threads) {}

  // pool.Run, what it takes to begin and to end counted as kTeam.
  template <class Region>
  void RunTeam(const Region& region) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point called = Clock::now();
    Clock::time_point began;
    Clock::time_point ended;
    pool.Run([&](const TeamMember& member) {
      if (member.thread == 0) began = Clock::now();
      region(member);
      if (member.thread == 0) ended = Clock::now();
    });
    const Clock::duration outside = (began - called) + (Clock::now() - ended);
    trace.Add(Zone::kTeam, std::chrono::duration_cast<std::chrono::nanoseconds>(outside).count());
  }

  MachineFacts facts;
  ThreadPool pool;
  MemoryLedger ledger;
  Trace trace;
};

}  // namespace lorica
