// Inbox: the one way into the engine thread. Any thread posts; the engine thread takes everything
// between steps and sleeps here when there is nothing to do.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "lorica/engine/request.h"
#include "lorica/engine/sequence.h"

namespace lorica::engine {

class Inbox {
 public:
  struct Mail {
    std::vector<std::unique_ptr<Sequence>> arrivals;
    std::vector<RequestId> cancels;  // may name arrivals of the same mail
  };

  // Gives the sequence its id and queues it; nothing after Stop.
  std::optional<RequestId> Post(std::unique_ptr<Sequence> sequence);
  void PostCancel(RequestId id);
  // Something outside changed (an adapter became hot): the next Wait returns at once.
  void Wake();
  void Stop();

  // The engine thread's.
  Mail Take();
  bool empty() const;
  // Returns true at once if `has_work`, else when something was posted, or false after Stop.
  bool Wait(bool has_work);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  Mail mail_;
  uint64_t next_id_ = 1;
  bool woken_ = false;
  bool stopped_ = false;
};

}  // namespace lorica::engine
