#include "lorica/server/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "lorica/server/service.h"

namespace lorica::server {
namespace {

TEST(HttpServer, ConnectionsEndWithTheServerWhileTheirRequestsRun) {
  ServiceOptions options;
  options.model_path = "tests/fixtures/tiny/llama";
  options.threads = 2;
  options.engine.kv_bytes = int64_t{1} << 20;
  options.engine.adapter_bytes = int64_t{8} << 20;
  auto service = Service::Open(options);
  ASSERT_TRUE(service.ok());
  // Without StartThread the request stays in flight.
  HttpOptions http;
  http.port = 0;
  auto server = HttpServer::Listen(http, &(*service)->api(), &(*service)->admin());
  ASSERT_TRUE(server.ok());
  std::thread runs([&] { (*server)->Run(); });

  const int client = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons((*server)->port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(client, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const std::string body = R"({"model":"llama","prompt":[1],"max_tokens":9})";
  const std::string request =
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
      "\r\n\r\n" + body;
  ASSERT_EQ(send(client, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
  // In the engine when it has work.
  ASSERT_TRUE((*service)->engine().WaitForWork());
  (*server)->Stop();
  runs.join();
  server->reset();
  timeval limit = {5, 0};
  setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  char byte;
  EXPECT_EQ(recv(client, &byte, 1, 0), 0) << "the connection is still open";
  close(client);
  // Its callbacks find nobody, and nothing that is gone.
  for (int i = 0; i < 20; ++i) (*service)->engine().Step();
}

}  // namespace
}  // namespace lorica::server
