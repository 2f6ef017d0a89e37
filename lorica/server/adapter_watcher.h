// AdapterWatcher: a thread that looks through the adapters folder a few times a second. Owned by
// Service; ends in its destructor.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "lorica/server/adapter_admin.h"

namespace lorica::server {

class AdapterWatcher {
 public:
  explicit AdapterWatcher(AdapterAdmin* admin);
  ~AdapterWatcher();
  AdapterWatcher(const AdapterWatcher&) = delete;
  AdapterWatcher& operator=(const AdapterWatcher&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopped_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace lorica::server
