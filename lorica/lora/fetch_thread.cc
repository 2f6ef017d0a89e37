#include "lorica/lora/fetch_thread.h"

#include "lorica/base/thread_priority.h"

namespace lorica::lora {

FetchThread::FetchThread(AdapterTiers* tiers) : tiers_(tiers) {
  thread_ = std::thread([this] {
    LowerThreadPriority(ThreadPriority::kSoon);
    while (tiers_->WaitForWork()) tiers_->FetchNext();
  });
}

FetchThread::~FetchThread() {
  tiers_->Stop();
  thread_.join();
}

}  // namespace lorica::lora
