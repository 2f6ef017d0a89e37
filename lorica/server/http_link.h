// How the engine reaches a connection: messages into a channel that the connection's coroutine
// reads. Private to HttpServer, whose one source includes it (Boost.Asio is slow to compile).
#pragma once

#include <boost/asio.hpp>
#include <boost/asio/experimental/concurrent_channel.hpp>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace lorica::server {

// What the engine thread sends a connection.
struct Message {
  enum class Kind { kChunk, kDone };
  Kind kind = Kind::kChunk;
  int http_status = 200;
  std::string text;
};
using Channel =
    boost::asio::experimental::concurrent_channel<void(boost::system::error_code, Message)>;

// The engine's way to a connection, whose channel may be gone, and the server with it, while the
// request is still in the engine.
class Link {
 public:
  explicit Link(Channel* channel) : channel_(channel) {}
  void Send(Message message) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (channel_ != nullptr) channel_->try_send(boost::system::error_code(), std::move(message));
  }
  void Cut() {
    const std::lock_guard<std::mutex> lock(mutex_);
    channel_ = nullptr;
  }

 private:
  std::mutex mutex_;
  Channel* channel_;  // guarded by mutex_
};

// Belongs to the coroutine that reads the channel.
struct LinkEnd {
  explicit LinkEnd(const boost::asio::any_io_executor& executor)
      // Unbounded, so that the engine thread never waits; a completion's length bounds it.
      : channel(executor, std::numeric_limits<size_t>::max()) {}
  ~LinkEnd() { link->Cut(); }
  LinkEnd(const LinkEnd&) = delete;
  LinkEnd& operator=(const LinkEnd&) = delete;

  Channel channel;
  const std::shared_ptr<Link> link = std::make_shared<Link>(&channel);
};

}  // namespace lorica::server
