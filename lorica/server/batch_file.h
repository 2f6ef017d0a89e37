// BatchFile: runs a file of requests in OpenAI's batch format, all in mixed batches, and writes
// one output line an input line, in the input's order. A bad line gets an error line; the others
// go on. Used by one thread, which also steps the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <ostream>
#include <string>

#include "lorica/base/status.h"
#include "lorica/server/service.h"

namespace lorica::server {

struct BatchCounts {
  int64_t lines = 0;   // that held a request or tried to
  int64_t failed = 0;  // answered with an error
};

// `progress` is called after each answered line, with what was done so far; may be empty.
// UNAVAILABLE when the output cannot be written.
Result<BatchCounts> RunBatchFile(std::istream* in, std::ostream* out, Service* service,
                                 const std::function<void(const BatchCounts&)>& progress);

}  // namespace lorica::server
