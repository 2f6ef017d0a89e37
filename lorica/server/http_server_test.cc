#include "lorica/server/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "lorica/server/service.h"

namespace lorica::server {
namespace {

class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() {
    ServiceOptions options;
    options.model_path = "tests/fixtures/tiny/llama";
    options.threads = 2;
    options.engine.kv_bytes = int64_t{1} << 20;
    options.engine.adapter_bytes = int64_t{8} << 20;
    auto service = Service::Open(options);
    LORICA_CHECK(service.ok());
    service_ = *std::move(service);
    HttpOptions http;
    http.port = 0;
    auto server = HttpServer::Listen(http, &service_->api(), &service_->admin());
    LORICA_CHECK(server.ok());
    server_ = *std::move(server);
    runs_ = std::thread([this] { server_->Run(); });
    client_ = socket(AF_INET, SOCK_STREAM, 0);
    timeval limit = {10, 0};
    setsockopt(client_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    LORICA_CHECK(connect(client_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  }
  ~HttpServerTest() override {
    StopServer();
    if (client_ >= 0) close(client_);
  }
  void StopServer() {
    if (server_ == nullptr) return;
    server_->Stop();
    runs_.join();
    server_.reset();
  }
  // Sends a completion, and returns when the engine has it. Without StartThread it stays there.
  void Ask(int tokens) {
    const std::string body = R"({"model":"llama","prompt":[1],"ignore_eos":true,"max_tokens":)" +
                             std::to_string(tokens) + "}";
    const std::string request = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: " +
                                std::to_string(body.size()) + "\r\n\r\n" + body;
    LORICA_CHECK(send(client_, request.data(), request.size(), 0) ==
                 static_cast<ssize_t>(request.size()));
    LORICA_CHECK(service_->engine().WaitForWork());
  }

  std::unique_ptr<Service> service_;
  std::unique_ptr<HttpServer> server_;
  std::thread runs_;
  int client_ = -1;
};

TEST_F(HttpServerTest, ConnectionsEndWithTheServerWhileTheirRequestsRun) {
  Ask(9);
  StopServer();
  char byte;
  EXPECT_EQ(recv(client_, &byte, 1, 0), 0) << "the connection is still open";
  // Its callbacks find nobody, and nothing that is gone.
  for (int i = 0; i < 20; ++i) service_->engine().Step();
}

TEST_F(HttpServerTest, AClientThatLeavesIsNotComputedForToTheEnd) {
  Ask(400);
  service_->engine().Step();
  close(std::exchange(client_, -1));
  int steps = 0;
  while (service_->engine().metrics().Read().cancelled == 0 && steps < 300) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    service_->engine().Step();
    ++steps;
  }
  EXPECT_LT(steps, 300);
  EXPECT_EQ(service_->engine().metrics().Read().running, 0);
}

TEST_F(HttpServerTest, AClientThatOnlyEndsItsSideReadsItsAnswer) {
  Ask(40);
  ASSERT_EQ(shutdown(client_, SHUT_WR), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  service_->engine().RunUntilIdle();
  std::string answer;
  char buffer[4096];
  for (ssize_t bytes; (bytes = recv(client_, buffer, sizeof(buffer), 0)) > 0;) {
    answer.append(buffer, static_cast<size_t>(bytes));
  }
  const std::string interim = "HTTP/1.1 100 Continue\r\n\r\n";
  ASSERT_TRUE(answer.starts_with(interim)) << answer;
  EXPECT_TRUE(answer.substr(interim.size()).starts_with("HTTP/1.1 200 OK\r\n")) << answer;
  EXPECT_NE(answer.find("\"completion_tokens\":40"), std::string::npos) << answer;
}

}  // namespace
}  // namespace lorica::server
