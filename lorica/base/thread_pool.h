// ThreadPool: a fixed team that runs one parallel region at a time, and the barrier inside it.
// Owned by MachineContext; only the engine thread (or a loader or test that owns its own pool)
// calls Run. Work is partitioned statically by the functions that run in the region: a thread
// count never changes what is computed, only who computes it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace lorica {

// All threads of a region meet here. Spins briefly (a linear layer's imbalance is microseconds),
// then parks, so that an idle or oversubscribed machine does not burn a core.
class Barrier {
 public:
  Barrier(int threads, int spins) : threads_(threads), spins_(spins) {}
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  void Wait();

 private:
  const int threads_;
  const int spins_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
};

// One thread's place in a region; what every kernel takes beside its Params.
struct TeamMember {
  int thread = 0;  // 0 .. threads - 1; 0 is the caller
  int threads = 1;
  Barrier* barrier = nullptr;  // null in a team of one

  void Sync() const {
    if (barrier != nullptr) barrier->Wait();
  }
};

struct IndexRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// Part `index` of [0, n) cut into `parts` nearly equal pieces, the longer ones first.
IndexRange SplitRange(int64_t n, int64_t parts, int64_t index);
inline IndexRange SplitRange(int64_t n, const TeamMember& member) {
  return SplitRange(n, member.threads, member.thread);
}

class ThreadPool {
 public:
  // `threads` >= 1, the caller of Run included. Every worker, and the caller inside Run, computes
  // with denormals flushed (isolation rule (e)); the caller's mode is restored after Run.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  // Runs region(TeamMember) once on each thread and returns when all have ended. Not reentrant.
  // Allocates nothing.
  template <class Region>
  void Run(const Region& region) {
    RunErased({&region, [](const void* r, const TeamMember& member) {
                 (*static_cast<const Region*>(r))(member);
               }});
  }

 private:
  // A region without its type.
  struct Erased {
    const void* region = nullptr;
    void (*call)(const void* region, const TeamMember& member) = nullptr;
  };
  void RunErased(const Erased& region);
  void WorkerLoop(int thread);

  const int threads_;
  Barrier inner_;      // handed to the region
  Barrier outer_;      // start and end of a region
  Erased region_;      // published by outer_
  bool stop_ = false;  // published by outer_
  std::vector<std::thread> workers_;
};

}  // namespace lorica
