#include "lorica/server/adapter_watcher.h"

#include <chrono>

#include "lorica/base/thread_priority.h"

namespace lorica::server {
namespace {

constexpr std::chrono::milliseconds kInterval(250);

}  // namespace

AdapterWatcher::AdapterWatcher(AdapterAdmin* admin) {
  thread_ = std::thread([this, admin] {
    LowerThreadPriority(ThreadPriority::kBackground);
    std::unique_lock lock(mutex_);
    while (!stop_.wait_for(lock, kInterval, [this] { return stopped_; })) {
      lock.unlock();
      admin->ScanFolder();
      lock.lock();
    }
  });
}

AdapterWatcher::~AdapterWatcher() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stop_.notify_all();
  thread_.join();
}

}  // namespace lorica::server
