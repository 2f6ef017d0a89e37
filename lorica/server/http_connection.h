// What one HTTP connection does beside its requests: answers whole, goes on after "100 Continue",
// takes in what a refused client still sends, and notices that a client has left. Private to
// HttpServer, whose one source includes it (Boost.Beast is slow to compile); its I/O thread runs
// all of it.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lorica/server/api_error.h"

namespace lorica::server {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

inline constexpr std::chrono::seconds kReadTimeout(60);
inline constexpr std::chrono::seconds kWriteTimeout(60);
inline constexpr std::chrono::seconds kLingerTimeout(5);
inline constexpr int64_t kLingerBytes = int64_t{256} << 20;
inline constexpr auto kToken = asio::as_tuple(asio::use_awaitable);
inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

using HttpRequest = http::request<http::string_body>;
using HttpResponse = http::response<http::string_body>;

inline HttpResponse MakeResponse(const HttpRequest& request, int status, std::string body,
                                 const char* type = "application/json") {
  HttpResponse response(static_cast<http::status>(status), request.version());
  response.set(http::field::server, "lorica");
  response.set(http::field::content_type, type);
  response.keep_alive(request.keep_alive());
  response.body() = std::move(body);
  response.prepare_payload();
  // The length stays; the body is not sent.
  if (request.method() == http::verb::head) response.body().clear();
  return response;
}

inline HttpResponse MakeError(const HttpRequest& request, const ApiError& error) {
  return MakeResponse(request, error.http_status, ErrorBody(error));
}

// A client that asks whether it may send its body is told so. False when it is gone.
inline asio::awaitable<bool> Continue(beast::tcp_stream& stream, const http::fields& head) {
  if (!beast::iequals(head[http::field::expect], "100-continue")) co_return true;
  stream.expires_after(kWriteTimeout);
  const auto [error, bytes] =
      co_await asio::async_write(stream, asio::buffer(kContinue.data(), kContinue.size()), kToken);
  co_return !error;
}

// After an answer that came before the whole request was read: takes in what the client is still
// sending, within bounds, since closing on unread bytes would reset the connection and lose the
// answer.
inline asio::awaitable<void> Linger(beast::tcp_stream& stream) {
  error_code ignored;
  stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
  std::vector<char> scratch(size_t{1} << 16);
  stream.expires_after(kLingerTimeout);
  for (int64_t left = kLingerBytes; left > 0;) {
    const auto [error, bytes] = co_await stream.async_read_some(asio::buffer(scratch), kToken);
    if (error) co_return;
    left -= static_cast<int64_t>(bytes);
  }
}

// Ends when the connection is reset.
inline asio::awaitable<void> WatchReset(tcp::socket& socket) {
  while (true) {
    const auto [error] = co_await socket.async_wait(tcp::socket::wait_error, kToken);
    if (error) co_return;
    pollfd state = {socket.native_handle(), 0, 0};
    // Urgent data wakes it too.
    if (::poll(&state, 1, 0) > 0 && (state.revents & (POLLERR | POLLHUP)) != 0) co_return;
  }
}

// Ends when the client of a request that has no answer yet has left. The end of what it sends is no
// sign: it may have shut that side only and still read its answer. So it is sent what any client of
// HTTP/1.1 skips, and one that has left resets on it.
inline asio::awaitable<void> WatchLeaving(tcp::socket& socket, unsigned http_version) {
  const auto [error] = co_await socket.async_wait(tcp::socket::wait_read, kToken);
  if (error) co_return;
  pollfd state = {socket.native_handle(), POLLRDHUP, 0};
  // Readable for a next request, too; then only a reset tells.
  const bool ended = ::poll(&state, 1, 0) > 0 && (state.revents & POLLRDHUP) != 0;
  if (ended && http_version >= 11) {
    // At once and whole or not at all: nothing else is on its way, and no answer may cut into it.
    const ssize_t sent = ::send(socket.native_handle(), kContinue.data(), kContinue.size(),
                                MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(kContinue.size())) co_return;
  }
  co_await WatchReset(socket);
}

}  // namespace lorica::server
