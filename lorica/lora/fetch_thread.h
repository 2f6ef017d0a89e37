// FetchThread: the loader, one thread of low priority that fetches what AdapterTiers has queued:
// a request waits for each, so it is not the lowest. Owned by the engine; ends in its destructor,
// after the fetch it is at.
#pragma once

#include <thread>

#include "lorica/lora/adapter_tiers.h"

namespace lorica::lora {

class FetchThread {
 public:
  explicit FetchThread(AdapterTiers* tiers);
  ~FetchThread();
  FetchThread(const FetchThread&) = delete;
  FetchThread& operator=(const FetchThread&) = delete;

 private:
  AdapterTiers* const tiers_;
  std::thread thread_;
};

}  // namespace lorica::lora
