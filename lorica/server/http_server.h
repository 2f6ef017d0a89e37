// HttpServer: OpenAiApi and AdapterAdmin over HTTP/1.1 and server-sent events, on one I/O thread.
// The program owns it; Run blocks the calling thread, Stop may be called from any. The engine runs
// elsewhere and reaches a connection only by posting to it, so a slow client holds nobody up;
// changes of adapters, which read and write files, run on a thread of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lorica/base/status.h"
#include "lorica/server/adapter_admin.h"
#include "lorica/server/openai_api.h"

namespace lorica::server {

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;  // 0: any free one
  std::string api_key;   // empty: none is asked for
  int64_t body_limit_bytes = int64_t{16} << 20;
};

class HttpServer {
 public:
  // Binds and listens. UNAVAILABLE with the system's reason; INVALID_ARGUMENT for a bad host.
  static Result<std::unique_ptr<HttpServer>> Listen(const HttpOptions& options, OpenAiApi* api,
                                                    AdapterAdmin* admin);
  ~HttpServer();

  uint16_t port() const;
  // Serves until Stop, or SIGINT or SIGTERM.
  void Run();
  void Stop();

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lorica::server
