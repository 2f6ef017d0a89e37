// The HTTP face of AdapterAdmin: which paths are its own, and what each answers. Without a socket;
// any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lorica/server/adapter_admin.h"

namespace lorica::server {

struct AdapterCall {
  std::string method;  // "GET"
  std::string target;  // without a query
  std::string body;
  std::string if_match;
};

struct AdapterAnswer {
  int http_status = 200;
  std::string body;
  const char* content_type = "application/json";
};

// Whether `target` belongs here at all.
bool IsAdapterTarget(std::string_view target);
// The name of PUT /v1/adapters/{name}, percent-decoded; nothing for another target, or where the
// encoding is broken.
std::optional<std::string> UploadName(std::string_view target);
// Everything but PUT, whose body goes to a file. Calls other than GET may wait for files.
AdapterAnswer AnswerAdapterCall(AdapterAdmin* admin, const AdapterCall& call);
AdapterAnswer ToAnswer(ApiResult<std::string> result);

}  // namespace lorica::server
