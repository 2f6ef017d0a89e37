#include "lorica/server/http_server.h"

#include <boost/asio.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <csignal>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "lorica/base/log.h"
#include "lorica/base/thread_priority.h"
#include "lorica/server/adapter_routes.h"
#include "lorica/server/http_connection.h"
#include "lorica/server/http_link.h"
#include "lorica/server/json_writer.h"

namespace lorica::server {
namespace {

using namespace asio::experimental::awaitable_operators;  // NOLINT(google-build-using-namespace)

constexpr size_t kSmallBodyBytes = size_t{16} << 10;

ApiError RouteError(int status, std::string message) {
  ApiError error;
  error.http_status = status;
  error.message = std::move(message);
  return error;
}

// Without its query.
template <typename Request>
std::string Target(const Request& request) {
  const std::string target(request.target());
  return target.substr(0, target.find('?'));
}

// Runs `work` on another executor while this coroutine waits.
template <typename T, typename Work>
asio::awaitable<T> Elsewhere(asio::thread_pool& pool, Work work) {
  co_return co_await asio::co_spawn(
      pool, [work = std::move(work)]() -> asio::awaitable<T> { co_return work(); },
      asio::use_awaitable);
}

// Compares in a time that does not depend on where two keys first differ.
bool SameKey(std::string_view a, std::string_view b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < b.size(); ++i) {
    difference |= static_cast<unsigned char>(b[i] ^ (a.empty() ? 0 : a[i % a.size()]));
  }
  return difference == 0;
}

}  // namespace

struct HttpServer::Impl {
  Impl(const HttpOptions& options, OpenAiApi* api, AdapterAdmin* admin)
      : options(options), api(api), admin(admin) {
    asio::post(changes, [] { LowerThreadPriority(ThreadPriority::kBackground); });
  }

  asio::awaitable<void> Accept();
  asio::awaitable<void> Serve(tcp::socket socket);
  // False when the connection must close.
  asio::awaitable<bool> Answer(beast::tcp_stream& stream, const HttpRequest& request);
  asio::awaitable<bool> Complete(beast::tcp_stream& stream, const HttpRequest& request);
  asio::awaitable<bool> StreamEvents(beast::tcp_stream& stream, const HttpRequest& request,
                                     Channel& channel, Message first);
  asio::awaitable<bool> Send(beast::tcp_stream& stream, HttpResponse response);
  std::optional<HttpResponse> Plain(const HttpRequest& request) const;
  // The answer to one that lacks the key; `head` is what the request begins with.
  std::optional<ApiError> Unauthorized(const http::fields& head) const;
  // PUT /v1/adapters/{name}: the body goes to a file while it comes.
  asio::awaitable<bool> Upload(beast::tcp_stream& stream, beast::flat_buffer& buffer,
                               http::request_parser<http::empty_body>& head);
  asio::awaitable<bool> ChangeAdapters(beast::tcp_stream& stream, const HttpRequest& request,
                                       std::string target);
  // An answer that comes before the whole request was read; the connection ends with it.
  asio::awaitable<void> Reject(beast::tcp_stream& stream, ApiError error);

  const HttpOptions options;
  OpenAiApi* const api;
  AdapterAdmin* const admin;
  const std::shared_ptr<asio::io_context> io = std::make_shared<asio::io_context>(1);
  tcp::acceptor acceptor{*io};
  // The last to be made: they end before what their work uses.
  // Of adapters; nobody's answer waits for one but the caller's own.
  asio::thread_pool changes{1};
  asio::thread_pool starts{2};  // of completions with a large body
};

asio::awaitable<void> HttpServer::Impl::Accept() {
  while (acceptor.is_open()) {
    auto [error, socket] = co_await acceptor.async_accept(kToken);
    if (error == asio::error::operation_aborted) co_return;
    if (error) {
      // Out of descriptors, mostly: wait for some to close instead of spinning.
      asio::steady_timer pause(*io, std::chrono::milliseconds(50));
      co_await pause.async_wait(kToken);
      continue;
    }
    socket.set_option(tcp::no_delay(true), error);
    asio::co_spawn(*io, Serve(std::move(socket)), asio::detached);
  }
}

asio::awaitable<void> HttpServer::Impl::Serve(tcp::socket socket) {
  beast::tcp_stream stream(std::move(socket));
  beast::flat_buffer buffer;
  while (true) {
    http::request_parser<http::empty_body> head;
    head.body_limit(boost::none);  // the body is another parser's
    stream.expires_after(kReadTimeout);
    auto [error, bytes] = co_await http::async_read_header(stream, buffer, head, kToken);
    if (!error && head.get().method() == http::verb::put && UploadName(Target(head.get()))) {
      if (!co_await Upload(stream, buffer, head)) break;
      continue;
    }
    const auto limit = static_cast<uint64_t>(options.body_limit_bytes);
    http::request_parser<http::string_body> parser(std::move(head));
    parser.body_limit(limit);
    if (!error && parser.content_length().value_or(0) > limit) error = http::error::body_limit;
    if (!error) {
      if (!co_await Continue(stream, parser.get())) break;
      stream.expires_after(kReadTimeout);
      std::tie(error, bytes) = co_await http::async_read(stream, buffer, parser, kToken);
    }
    if (error == http::error::body_limit) {
      co_await Reject(stream, RouteError(413, "request body: expected at most " +
                                                  std::to_string(options.body_limit_bytes) +
                                                  " bytes, found more"));
      break;
    }
    if (error == http::error::end_of_stream || error == beast::error::timeout ||
        error == asio::error::connection_reset || error == asio::error::eof) {
      break;
    }
    if (error) {
      co_await Reject(stream,
                      RouteError(400, "request: expected HTTP/1.1, found " + error.message()));
      break;
    }
    const HttpRequest request = parser.release();
    stream.expires_never();
    if (!co_await Answer(stream, request) || !request.keep_alive()) break;
  }
  error_code ignored;
  stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
}

asio::awaitable<void> HttpServer::Impl::Reject(beast::tcp_stream& stream, ApiError error) {
  HttpRequest request;
  request.version(11);
  request.keep_alive(false);
  co_await Send(stream, MakeError(request, error));
  co_await Linger(stream);
}

asio::awaitable<bool> HttpServer::Impl::Upload(beast::tcp_stream& stream,
                                               beast::flat_buffer& buffer,
                                               http::request_parser<http::empty_body>& head) {
  if (const std::optional<ApiError> error = Unauthorized(head.get())) {
    co_await Reject(stream, *error);
    co_return false;
  }
  AdapterAdmin::Upload upload;
  upload.name = *UploadName(Target(head.get()));
  upload.content_type = std::string(head.get()[http::field::content_type]);
  upload.if_match = std::string(head.get()[http::field::if_match]);
  upload.body_path = admin->NewBodyPath();
  const auto limit = static_cast<uint64_t>(admin->upload_limit_bytes());
  http::request_parser<http::file_body> parser(std::move(head));
  parser.body_limit(limit);
  error_code error;
  parser.get().body().open(upload.body_path.c_str(), beast::file_mode::write_new, error);
  if (!error && parser.content_length().value_or(0) > limit) error = http::error::body_limit;
  if (!error && !co_await Continue(stream, parser.get())) error = asio::error::eof;
  while (!error && !parser.is_done()) {
    stream.expires_after(kReadTimeout);
    size_t bytes = 0;
    std::tie(error, bytes) = co_await http::async_read_some(stream, buffer, parser, kToken);
  }
  stream.expires_never();
  HttpRequest request;
  request.version(parser.get().version());
  request.keep_alive(parser.get().keep_alive());
  parser.get().body().close();
  if (error) {
    admin->RemoveBody(upload.body_path);
    if (error == http::error::body_limit) {
      co_await Reject(stream, RouteError(413, "upload: expected at most " + std::to_string(limit) +
                                                  " bytes, found more"));
    } else if (error.category() == boost::system::generic_category() ||
               error == boost::system::errc::no_space_on_device) {
      co_await Reject(stream, RouteError(507, "upload: cannot be written: " + error.message()));
    }
    co_return false;
  }
  AdapterAnswer answer = co_await Elsewhere<AdapterAnswer>(changes, [this, &upload] {
    AdapterAnswer put = ToAnswer(admin->Put(upload));
    admin->RemoveBody(upload.body_path);
    return put;
  });
  co_return co_await Send(stream, MakeResponse(request, answer.http_status, std::move(answer.body),
                                               answer.content_type));
}

asio::awaitable<bool> HttpServer::Impl::ChangeAdapters(beast::tcp_stream& stream,
                                                       const HttpRequest& request,
                                                       std::string target) {
  AdapterCall call;
  const bool is_head = request.method() == http::verb::head;
  call.method = std::string(is_head ? "GET" : request.method_string());
  call.target = std::move(target);
  call.body = request.body();
  call.if_match = std::string(request[http::field::if_match]);
  AdapterAnswer answer;
  if (call.method == "GET") {
    answer = AnswerAdapterCall(admin, call);
  } else {
    answer = co_await Elsewhere<AdapterAnswer>(
        changes, [this, &call] { return AnswerAdapterCall(admin, call); });
  }
  co_return co_await Send(stream, MakeResponse(request, answer.http_status, std::move(answer.body),
                                               answer.content_type));
}

std::optional<ApiError> HttpServer::Impl::Unauthorized(const http::fields& head) const {
  if (options.api_key.empty()) return std::nullopt;
  const auto header = head[http::field::authorization];
  if (SameKey(std::string_view(header.data(), header.size()), "Bearer " + options.api_key)) {
    return std::nullopt;
  }
  ApiError error = RouteError(401, "expected the API key as a bearer token");
  error.code = "invalid_api_key";
  return error;
}

// The calls that need no engine step.
std::optional<HttpResponse> HttpServer::Impl::Plain(const HttpRequest& request) const {
  const std::string target = Target(request);
  constexpr std::string_view kModels = "/v1/models/";
  if (target == "/health") return MakeResponse(request, 200, "", "text/plain");
  if (const std::optional<ApiError> error = Unauthorized(request)) {
    return MakeError(request, *error);
  }
  if (IsAdapterTarget(target)) return std::nullopt;
  const bool is_get = request.method() == http::verb::get || request.method() == http::verb::head;
  if (target == "/v1/completions") {
    if (request.method() == http::verb::post) return std::nullopt;
    return MakeError(request, RouteError(405, "/v1/completions: expected POST"));
  }
  if (target == "/v1/models" || target == "/version" || target.starts_with(kModels)) {
    if (!is_get) return MakeError(request, RouteError(405, target + ": expected GET"));
  }
  if (target == "/v1/models") return MakeResponse(request, 200, api->ModelsBody());
  if (target == "/version") return MakeResponse(request, 200, R"({"version":"0.1.0"})");
  if (target.starts_with(kModels)) {
    ApiResult<std::string> body = api->ModelBody(target.substr(kModels.size()));
    if (const auto* error = std::get_if<ApiError>(&body)) return MakeError(request, *error);
    return MakeResponse(request, 200, std::get<std::string>(std::move(body)));
  }
  return MakeError(request, RouteError(404, target + ": no such path"));
}

asio::awaitable<bool> HttpServer::Impl::Answer(beast::tcp_stream& stream,
                                               const HttpRequest& request) {
  std::optional<HttpResponse> plain = Plain(request);
  if (plain) co_return co_await Send(stream, std::move(*plain));
  std::string target = Target(request);
  if (IsAdapterTarget(target)) {
    co_return co_await ChangeAdapters(stream, request, std::move(target));
  }
  co_return co_await Complete(stream, request);
}

asio::awaitable<bool> HttpServer::Impl::Complete(beast::tcp_stream& stream,
                                                 const HttpRequest& request) {
  LinkEnd end(io->get_executor());
  CompletionCallbacks callbacks;
  callbacks.on_chunk = [link = end.link](std::string chunk) {
    link->Send({Message::Kind::kChunk, 200, std::move(chunk)});
  };
  callbacks.on_done = [link = end.link](int http_status, std::string body) {
    link->Send({Message::Kind::kDone, http_status, std::move(body)});
  };
  ApiResult<std::shared_ptr<Completion>> started = ApiError();
  const auto start = [&] {
    return api->StartCompletion(request.body(), std::move(callbacks), TransportKind::kHttp);
  };
  // Parsing and tokenizing a large one takes long enough for others to notice.
  if (request.body().size() <= kSmallBodyBytes) {
    started = start();
  } else {
    started = co_await Elsewhere<ApiResult<std::shared_ptr<Completion>>>(starts, start);
  }
  if (const auto* error = std::get_if<ApiError>(&started)) {
    co_return co_await Send(stream, MakeError(request, *error));
  }
  const auto completion = std::get<std::shared_ptr<Completion>>(started);
  auto received = co_await (end.channel.async_receive(kToken) ||
                            WatchLeaving(stream.socket(), request.version()));
  if (received.index() == 1) {
    completion->Cancel();
    co_return false;
  }
  auto [error, message] = std::get<0>(std::move(received));
  if (message.kind == Message::Kind::kDone && !message.text.empty()) {
    co_return co_await Send(stream,
                            MakeResponse(request, message.http_status, std::move(message.text)));
  }
  const bool alive = co_await StreamEvents(stream, request, end.channel, std::move(message));
  if (!alive) completion->Cancel();
  co_return alive;
}

asio::awaitable<bool> HttpServer::Impl::StreamEvents(beast::tcp_stream& stream,
                                                     const HttpRequest& request, Channel& channel,
                                                     Message message) {
  http::response<http::empty_body> head(http::status::ok, request.version());
  head.set(http::field::server, "lorica");
  head.set(http::field::content_type, "text/event-stream");
  head.set(http::field::cache_control, "no-cache");
  // HTTP/1.0 knows no chunks: there the end of the connection is the end of the stream.
  const bool chunked = request.version() >= 11;
  head.keep_alive(chunked && request.keep_alive());
  head.chunked(chunked);
  http::response_serializer<http::empty_body> serializer(head);
  stream.expires_after(kWriteTimeout);
  if (std::get<0>(co_await http::async_write_header(stream, serializer, kToken))) co_return false;
  while (true) {
    const bool done = message.kind == Message::Kind::kDone;
    std::string frame;
    // An error in the middle of a stream is an event of its own before the end.
    if (!message.text.empty()) frame = "data: " + message.text + "\n\n";
    if (done) frame += "data: [DONE]\n\n";
    stream.expires_after(kWriteTimeout);
    error_code error;
    size_t bytes = 0;
    if (chunked) {
      std::tie(error, bytes) =
          co_await asio::async_write(stream, http::make_chunk(asio::buffer(frame)), kToken);
    } else {
      std::tie(error, bytes) = co_await asio::async_write(stream, asio::buffer(frame), kToken);
    }
    if (error || (done && !chunked)) co_return false;
    if (done) {
      const auto [end_error, end_bytes] =
          co_await asio::async_write(stream, http::make_chunk_last(), kToken);
      co_return !end_error;
    }
    stream.expires_never();
    auto received = co_await (channel.async_receive(kToken) || WatchReset(stream.socket()));
    if (received.index() == 1) co_return false;
    message = std::move(std::get<1>(std::get<0>(received)));
  }
}

asio::awaitable<bool> HttpServer::Impl::Send(beast::tcp_stream& stream, HttpResponse response) {
  stream.expires_after(kWriteTimeout);
  const auto [error, bytes] = co_await http::async_write(stream, response, kToken);
  co_return !error && response.keep_alive();
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::Listen(const HttpOptions& options, OpenAiApi* api,
                                                       AdapterAdmin* admin) {
  auto impl = std::make_unique<Impl>(options, api, admin);
  error_code error;
  const std::string host = options.host == "localhost" ? "127.0.0.1" : options.host;
  const asio::ip::address address = asio::ip::make_address(host, error);
  if (error) {
    return InvalidArgument("--host: expected an IP address, found \"" + options.host + "\"");
  }
  const tcp::endpoint endpoint(address, options.port);
  impl->acceptor.open(endpoint.protocol(), error);
  if (!error) impl->acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) impl->acceptor.bind(endpoint, error);
  if (!error) impl->acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return Unavailable("cannot listen on " + options.host + ":" + std::to_string(options.port) +
                       ": " + error.message());
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

uint16_t HttpServer::port() const { return impl_->acceptor.local_endpoint().port(); }

void HttpServer::Run() {
  asio::signal_set signals(*impl_->io, SIGINT, SIGTERM);
  signals.async_wait([this](error_code error, int) {
    if (!error) Stop();
  });
  asio::co_spawn(*impl_->io, impl_->Accept(), asio::detached);
  while (!impl_->io->stopped()) {
    try {
      impl_->io->run();
    } catch (const std::exception& error) {
      // One connection's failure ends that connection.
      LogError(std::string("a connection ended: ") + error.what());
    }
  }
}

void HttpServer::Stop() {
  asio::post(*impl_->io, [io = impl_->io] { io->stop(); });
}

}  // namespace lorica::server
