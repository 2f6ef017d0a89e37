// MachineContext: machine facts, threads, memory accounts and trace as one value that is handed
// down, so that two engines live in one process. The engine's owner owns it and keeps it alive
// longer than everything built on it.
#pragma once

#include "lorica/base/machine.h"
#include "lorica/base/memory_tag.h"
#include "lorica/base/thread_pool.h"
#include "lorica/base/trace.h"

namespace lorica {

struct MachineContext {
  explicit MachineContext(int threads) : facts(ReadMachineFacts()), pool(threads) {}

  MachineFacts facts;
  ThreadPool pool;
  MemoryLedger ledger;
  Trace trace;
};

}  // namespace lorica
