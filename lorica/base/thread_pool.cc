#include "lorica/base/thread_pool.h"

#include "lorica/base/check.h"
#include "lorica/base/float_mode.h"

namespace lorica {
namespace {

// About 20 us of pauses: longer than the imbalance inside a step, far shorter than a time slice.
constexpr int kSpins = 1000;
// What lies between two regions of busy steps: choosing rows, answering, planning.
constexpr int kOuterSpins = 2000;

inline void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void Barrier::Wait() {
  const uint32_t generation = generation_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == threads_ - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    return;
  }
  for (int i = 0; i < spins_; ++i) {
    if (generation_.load(std::memory_order_acquire) != generation) return;
    Pause();
  }
  while (generation_.load(std::memory_order_acquire) == generation) {
    generation_.wait(generation, std::memory_order_acquire);
  }
}

IndexRange SplitRange(int64_t n, int64_t parts, int64_t index) {
  LORICA_DCHECK(parts > 0 && index >= 0 && index < parts);
  const int64_t base = n / parts;
  const int64_t extra = n % parts;
  const int64_t begin = index * base + (index < extra ? index : extra);
  return {begin, begin + base + (index < extra ? 1 : 0)};
}

ThreadPool::ThreadPool(int threads)
    : threads_(threads), inner_(threads, kSpins), outer_(threads, kOuterSpins) {
  LORICA_CHECK(threads >= 1);
  workers_.reserve(static_cast<size_t>(threads - 1));
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { WorkerLoop(i); });
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  if (threads_ > 1) outer_.Wait();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::RunErased(const Erased& region) {
  const ScopedFlushDenormals flush;
  if (threads_ == 1) {
    region.call(region.region, TeamMember{});
    return;
  }
  region_ = region;
  outer_.Wait();
  region.call(region.region, TeamMember{0, threads_, &inner_});
  outer_.Wait();
}

void ThreadPool::WorkerLoop(int thread) {
  const ScopedFlushDenormals flush;
  while (true) {
    outer_.Wait();
    if (stop_) return;
    region_.call(region_.region, TeamMember{thread, threads_, &inner_});
    outer_.Wait();
  }
}

}  // namespace lorica
