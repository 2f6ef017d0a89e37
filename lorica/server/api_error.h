// ApiError: a failure as OpenAI's clients read it: an HTTP status and
// {"error": {"message", "type", "param", "code"}}. Plain value.
#pragma once

#include <string>

#include "lorica/base/status.h"

namespace lorica::server {

struct ApiError {
  int http_status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param;  // the field at fault, empty when there is none
  std::string code;   // machine-readable, empty when there is none
};

// The HTTP status and type that a Status means to a client.
ApiError ToApiError(const Status& status, std::string param = "");
// {"error": {...}}
std::string ErrorBody(const ApiError& error);

}  // namespace lorica::server
