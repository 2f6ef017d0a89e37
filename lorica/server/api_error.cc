#include "lorica/server/api_error.h"

#include <utility>

#include "lorica/server/json_writer.h"

namespace lorica::server {
namespace {

int HttpStatus(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return 200;
    case StatusCode::kInvalidArgument:
    case StatusCode::kOutOfRange:
    case StatusCode::kUnimplemented:
      return 400;
    case StatusCode::kNotFound:
      return 404;
    case StatusCode::kAlreadyExists:
    case StatusCode::kFailedPrecondition:
      return 409;
    case StatusCode::kResourceExhausted:
      return 429;
    case StatusCode::kUnavailable:
    case StatusCode::kCancelled:
      return 503;
    case StatusCode::kDataLoss:
    case StatusCode::kInternal:
      return 500;
  }
  return 500;
}

}  // namespace

ApiError ToApiError(const Status& status, std::string param) {
  ApiError error;
  error.http_status = HttpStatus(status.code());
  error.message = status.message();
  error.param = std::move(param);
  if (error.http_status == 404) {
    error.code = "model_not_found";
  } else if (error.http_status == 429) {
    error.type = "rate_limit_error";
  } else if (error.http_status >= 500) {
    error.type = "server_error";
  }
  return error;
}

std::string ErrorBody(const ApiError& error) {
  JsonWriter json;
  json.BeginObject();
  json.Key("error").BeginObject();
  json.Key("message").String(error.message);
  json.Key("type").String(error.type);
  json.Key("param").StringOrNull(error.param);
  json.Key("code").StringOrNull(error.code);
  json.EndObject();
  json.EndObject();
  return json.Take();
}

}  // namespace lorica::server
