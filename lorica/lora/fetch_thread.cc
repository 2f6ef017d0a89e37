#include "lorica/lora/fetch_thread.h"

#include <sys/resource.h>
#include <unistd.h>

namespace lorica::lora {
namespace {

constexpr int kLowestPriority = 19;

}  // namespace

FetchThread::FetchThread(AdapterTiers* tiers) : tiers_(tiers) {
  thread_ = std::thread([this] {
    // Of this thread alone, as Linux has it. A refusal costs fairness, nothing else.
    (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLowestPriority);
    while (tiers_->WaitForWork()) tiers_->FetchNext();
  });
}

FetchThread::~FetchThread() {
  tiers_->Stop();
  thread_.join();
}

}  // namespace lorica::lora
