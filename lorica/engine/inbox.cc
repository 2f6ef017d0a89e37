#include "lorica/engine/inbox.h"

#include <utility>

namespace lorica::engine {

std::optional<RequestId> Inbox::Post(std::unique_ptr<Sequence> sequence) {
  RequestId id;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return std::nullopt;
    // Under the lock, so that ids ascend in the order in which the engine sees the arrivals.
    id = {next_id_++};
    sequence->id = id;
    mail_.arrivals.push_back(std::move(sequence));
  }
  changed_.notify_one();
  return id;
}

void Inbox::PostCancel(RequestId id) {
  {
    const std::lock_guard lock(mutex_);
    mail_.cancels.push_back(id);
  }
  changed_.notify_one();
}

void Inbox::Wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_one();
}

void Inbox::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

Inbox::Mail Inbox::Take() {
  const std::lock_guard lock(mutex_);
  woken_ = false;
  return std::exchange(mail_, Mail());
}

bool Inbox::empty() const {
  const std::lock_guard lock(mutex_);
  return mail_.arrivals.empty() && mail_.cancels.empty();
}

bool Inbox::Wait(bool has_work) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return stopped_ || has_work || woken_ || !mail_.arrivals.empty() || !mail_.cancels.empty();
  });
  return !stopped_;
}

}  // namespace lorica::engine
