// Status and Result<T>: values for everything that the world can cause (files, requests, memory).
// A message names the thing, what was expected and what was found. No exception leaves a folder;
// a broken contract of our own is LORICA_CHECK (check.h). Plain values, safe on any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lorica/base/check.h"

namespace lorica {

enum class StatusCode {
  kOk,
  kInvalidArgument,     // malformed input: a file's bytes, a request's field
  kNotFound,            // a name, a path or a tensor that is not there
  kAlreadyExists,       // a name used twice
  kOutOfRange,          // over a stated limit: rank, context, size
  kResourceExhausted,   // no room now: arena, pages, queue
  kFailedPrecondition,  // not in this state: shut down, not loaded
  kUnimplemented,       // well-formed, known, and not served here
  kDataLoss,            // truncated or changed under us
  kUnavailable,         // the operating system said no: open, read, bind
  kCancelled,
  kInternal,
};

std::string_view StatusCodeName(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // The same failure with "context: " in front, for a caller that knows the file or the name.
  Status WithContext(std::string_view context) const;
  // "INVALID_ARGUMENT: message", for logs.
  std::string ToString() const;

  bool operator==(const Status&) const = default;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status OkStatus() { return Status(); }
inline Status InvalidArgument(std::string m) {
  return {StatusCode::kInvalidArgument, std::move(m)};
}
inline Status NotFound(std::string m) { return {StatusCode::kNotFound, std::move(m)}; }
inline Status AlreadyExists(std::string m) { return {StatusCode::kAlreadyExists, std::move(m)}; }
inline Status OutOfRange(std::string m) { return {StatusCode::kOutOfRange, std::move(m)}; }
inline Status ResourceExhausted(std::string m) {
  return {StatusCode::kResourceExhausted, std::move(m)};
}
inline Status FailedPrecondition(std::string m) {
  return {StatusCode::kFailedPrecondition, std::move(m)};
}
inline Status Unimplemented(std::string m) { return {StatusCode::kUnimplemented, std::move(m)}; }
inline Status DataLoss(std::string m) { return {StatusCode::kDataLoss, std::move(m)}; }
inline Status Unavailable(std::string m) { return {StatusCode::kUnavailable, std::move(m)}; }
inline Status Cancelled(std::string m) { return {StatusCode::kCancelled, std::move(m)}; }
inline Status Internal(std::string m) { return {StatusCode::kInternal, std::move(m)}; }

// A T or the Status that says why there is none. Never holds an OK status without a value.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    LORICA_CHECK(!status_.ok());
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  T& value() & {
    LORICA_CHECK(ok());
    return *value_;
  }
  const T& value() const& {
    LORICA_CHECK(ok());
    return *value_;
  }
  T&& value() && {
    LORICA_CHECK(ok());
    return *std::move(value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace lorica

#define LORICA_CONCAT_INNER(a, b) a##b
#define LORICA_CONCAT(a, b) LORICA_CONCAT_INNER(a, b)

#define LORICA_RETURN_IF_ERROR(expr)                 \
  do {                                               \
    ::lorica::Status lorica_status_ = (expr);        \
    if (!lorica_status_.ok()) return lorica_status_; \
  } while (false)

#define LORICA_ASSIGN_OR_RETURN(lhs, expr) \
  LORICA_ASSIGN_OR_RETURN_IMPL(LORICA_CONCAT(lorica_result_, __LINE__), lhs, expr)
#define LORICA_ASSIGN_OR_RETURN_IMPL(result, lhs, expr) \
  auto result = (expr);                                 \
  if (!result.ok()) return result.status();             \
  lhs = std::move(result).value()
