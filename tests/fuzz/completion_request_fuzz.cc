// The body of POST /v1/completions, as a client may send it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lorica/server/completion_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lorica::server;  // NOLINT(google-build-using-namespace)
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const ApiResult<CompletionRequest> request = ParseCompletionRequest(body, {});
  if (const auto* error = std::get_if<ApiError>(&request)) {
    // An error is an answer: it must itself be JSON that a client can read.
    if (ErrorBody(*error).empty() || error->message.empty()) __builtin_trap();
  }
  return 0;
}
