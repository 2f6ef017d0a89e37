// The soak: a server in this process and clients on sockets of their own, who ask, replace, delete,
// evict, cancel and hang up, on the tiny model. Every answer has to be that of the version that its
// fingerprint names. Prints what was done; exit status 0 if nothing was crossed, lost or leaked.
//
//   soak [--requests N] [--clients N]
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "lorica/base/log.h"
#include "lorica/server/http_server.h"
#include "lorica/server/service.h"

namespace {

using namespace lorica;  // NOLINT(google-build-using-namespace)
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kModel = "tests/fixtures/tiny/llama";
constexpr int kContents = 12;  // adapters that differ by their alpha
constexpr int kNames = 20;

struct Answer {
  int status = 0;
  std::string body;
};

// One call on a connection of its own; `hang_up` leaves without the answer.
class Client {
 public:
  explicit Client(uint16_t port) : port_(port) {}

  Answer Call(const std::string& method, const std::string& target, const std::string& body,
              const std::string& type = "application/json", bool hang_up = false) {
    Answer answer;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      close(fd);
      return answer;
    }
    const std::string request =
        method + " " + target + " HTTP/1.1\r\nHost: x\r\nContent-Type: " + type +
        "\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
        body;
    size_t sent = 0;
    const size_t whole = hang_up && method == "PUT" ? request.size() / 2 : request.size();
    while (sent < whole) {
      const ssize_t n = send(fd, request.data() + sent, whole - sent, MSG_NOSIGNAL);
      if (n <= 0) break;
      sent += static_cast<size_t>(n);
    }
    std::string response;
    char buffer[4096];
    while (!hang_up) {
      const ssize_t n = recv(fd, buffer, sizeof(buffer), 0);
      if (n <= 0) break;
      response.append(buffer, static_cast<size_t>(n));
    }
    close(fd);
    const size_t head = response.find("\r\n\r\n");
    if (head == std::string::npos) return answer;
    answer.status = std::atoi(response.c_str() + std::strlen("HTTP/1.1 "));
    answer.body = response.substr(head + 4);
    return answer;
  }

 private:
  const uint16_t port_;
};

std::string Between(const std::string& text, const std::string& from, const std::string& to) {
  const size_t begin = text.find(from);
  if (begin == std::string::npos) return "";
  const size_t start = begin + from.size();
  return text.substr(start, text.find(to, start) - start);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A multipart upload of the plain adapter with another alpha.
std::string UploadBody(int content) {
  const std::string folder = std::string(kModel) + "/adapters/plain/";
  std::string config = ReadFile(folder + "adapter_config.json");
  const size_t at = config.find("\"lora_alpha\"");
  const size_t colon = config.find(':', at);
  const size_t end = config.find_first_of(",}\n", colon);
  config.replace(colon + 1, end - colon - 1, std::to_string(2 + content));
  std::string body;
  for (const auto& [name, bytes] :
       {std::pair<std::string, std::string>("adapter_config.json", config),
        {"adapter_model.safetensors", ReadFile(folder + "adapter_model.safetensors")}}) {
    body += "--SOAK\r\nContent-Disposition: form-data; name=\"f\"; filename=\"" + name +
            "\"\r\n\r\n" + bytes + "\r\n";
  }
  return body + "--SOAK--\r\n";
}
constexpr const char* kMultipart = "multipart/form-data; boundary=SOAK";

std::string AskBody(const std::string& model, int prompt, int tokens, bool stream = false) {
  std::string ids;
  for (int i = 0; i < 20 + prompt; ++i)
    ids += (i > 0 ? "," : "") + std::to_string((i * 7 + prompt) % 100);
  return R"({"model":")" + model + R"(","prompt":[)" + ids +
         R"(],"temperature":0,"ignore_eos":true,)" + R"("return_token_ids":true,"max_tokens":)" +
         std::to_string(tokens) + (stream ? R"(,"stream":true})" : "}");
}

int64_t RssKib() {
  const std::string status = ReadFile("/proc/self/status");
  return std::atoll(Between(status, "VmRSS:", "kB").c_str());
}

struct Counts {
  std::atomic<int64_t> asked{0}, answered{0}, not_found{0}, other{0}, crossed{0}, hung_up{0};
  std::atomic<int64_t> uploads{0}, deletes{0}, refused{0};
};

class Soak {
 public:
  Soak(int64_t requests, int clients) : requests_(requests), clients_(clients) {}

  int Run() {
    SetLogLevel(LogLevel::kError);
    server::ServiceOptions options;
    options.model_path = kModel;
    options.served_names = {"base"};
    options.threads = 1;
    options.engine.kv_bytes = int64_t{2} << 20;
    options.engine.adapter_bytes = 48 << 10;  // a few adapters: the others are evicted
    options.engine.cold_bytes = 16 << 10;
    options.engine.adapter_quantum = 32;
    auto opened = server::Service::Open(options);
    if (!opened.ok()) return Fail(opened.status().message());
    std::unique_ptr<server::Service> service = *std::move(opened);
    server::HttpOptions http;
    http.port = 0;
    auto listening = server::HttpServer::Listen(http, &service->api(), &service->admin());
    if (!listening.ok()) return Fail(listening.status().message());
    server_ = listening->get();
    std::thread serving([&] { server_->Run(); });
    std::thread stepping([&] { StepAndCheck(&service->engine()); });

    LearnAnswers();
    std::vector<std::thread> clients;
    const auto began = Clock::now();
    for (int i = 0; i < clients_; ++i) clients.emplace_back([this, i] { ClientLoop(i); });
    std::thread watch([&] { WatchMemory(); });
    for (std::thread& client : clients) client.join();
    over_.store(true);
    watch.join();
    // Whoever hung up is cancelled; then nothing is left.
    Client client(server_->port());
    for (int i = 0; i < kNames; ++i)
      client.Call("DELETE", "/v1/adapters/n" + std::to_string(i), "");
    int64_t left = 1;
    for (int i = 0; i < 200 && left > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const engine::MetricValues values = service->engine().metrics().Read();
      left = values.running + values.waiting + values.kv_pages_used;
    }
    const lora::AdapterTiers::Totals totals = service->engine().tiers().totals();
    service->engine().Stop();
    stepping.join();
    server_->Stop();
    serving.join();
    listening->reset();
    const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
    std::printf(
        "soak: %lld requests in %.0f s: %lld answered, %lld not found, %lld other, %lld hung "
        "up; %lld uploads, %lld deletes; %lld loads, %lld evictions\n",
        N(counts_.asked), seconds, N(counts_.answered), N(counts_.not_found), N(counts_.other),
        N(counts_.hung_up), N(counts_.uploads), N(counts_.deletes),
        static_cast<long long>(totals.loads), static_cast<long long>(totals.evictions));
    std::printf(
        "soak: crossed answers %lld, integrity checks %lld (failed %lld), RSS at half %lld "
        "KiB, at the end %lld KiB; left %lld\n",
        N(counts_.crossed), N(checks_), N(failed_checks_), static_cast<long long>(half_kib_.load()),
        static_cast<long long>(end_kib_.load()), static_cast<long long>(left));
    const bool flat = end_kib_ <= half_kib_ + half_kib_ / 20 + 4096;
    const bool good = counts_.crossed == 0 && failed_checks_ == 0 && left == 0 && flat &&
                      counts_.answered > 0 && counts_.other == 0 && counts_.refused == 0;
    std::printf("soak: %s\n", good ? "ok" : "FAILED");
    return good ? 0 : 1;
  }

 private:
  static long long N(const std::atomic<int64_t>& count) { return count.load(); }
  static int Fail(const std::string& message) {
    std::fprintf(stderr, "soak: %s\n", message.c_str());
    return 1;
  }

  // The engine's thread: between steps, every five seconds, every owner
  // is asked whether it agrees with every other.
  void StepAndCheck(engine::Engine* engine) {
    auto next = Clock::now();
    while (engine->WaitForWork()) {
      engine->Step();
      if (Clock::now() < next) continue;
      next = Clock::now() + std::chrono::seconds(5);
      checks_.fetch_add(1);
      const Status status = engine->CheckIntegrity();
      if (status.ok()) continue;
      failed_checks_.fetch_add(1);
      std::fprintf(stderr, "soak: %s\n", status.message().c_str());
    }
  }

  // What each content answers, alone.
  void LearnAnswers() {
    Client client(server_->port());
    for (int content = 0; content < kContents; ++content) {
      uploads_.push_back(UploadBody(content));
      const Answer put = client.Call("PUT", "/v1/adapters/n0", uploads_.back(), kMultipart);
      const std::string digest = Between(put.body, "\"digest\":\"", "\"").substr(0, 12);
      for (int prompt = 0; prompt < 4; ++prompt) {
        const Answer answer = client.Call("POST", "/v1/completions", AskBody("n0", prompt, 12));
        expected_[digest + std::to_string(prompt)] = Between(answer.body, "\"token_ids\":[", "]");
      }
    }
  }

  void ClientLoop(int number) {
    Client client(server_->port());
    std::mt19937 random(static_cast<uint32_t>(number) + 1);
    while (counts_.asked.fetch_add(1) < requests_) {
      const std::string name = "n" + std::to_string(random() % kNames);
      const uint32_t what = random() % 100;
      if (what < 8) {
        const Answer put =
            client.Call("PUT", "/v1/adapters/" + name, uploads_[random() % kContents], kMultipart);
        (put.status == 200 ? counts_.uploads : counts_.refused).fetch_add(1);
        if (put.status != 200) std::fprintf(stderr, "soak: %d %s\n", put.status, put.body.c_str());
      } else if (what < 10) {
        client.Call("DELETE", "/v1/adapters/" + name, "");
        counts_.deletes.fetch_add(1);
      } else if (what < 12) {
        client.Call("PUT", "/v1/adapters/" + name, uploads_[0], kMultipart, true);
        counts_.hung_up.fetch_add(1);
      } else if (what < 16) {
        client.Call("POST", "/v1/completions", AskBody(name, 0, 60, what < 14), "application/json",
                    true);
        counts_.hung_up.fetch_add(1);
      } else if (what < 18) {
        client.Call("GET", "/v1/adapters", "");
      } else {
        const int prompt = static_cast<int>(random() % 4);
        const Answer answer = client.Call("POST", "/v1/completions", AskBody(name, prompt, 12));
        Judge(answer, prompt);
      }
    }
  }

  void Judge(const Answer& answer, int prompt) {
    if (answer.status == 404) {
      counts_.not_found.fetch_add(1);
      return;
    }
    if (answer.status != 200) {
      counts_.other.fetch_add(1);
      std::fprintf(stderr, "soak: %d %s\n", answer.status, answer.body.c_str());
      return;
    }
    const std::string fingerprint = Between(answer.body, "\"system_fingerprint\":\"", "\"");
    const std::string digest = fingerprint.substr(fingerprint.rfind('_') + 1);
    const auto found = expected_.find(digest + std::to_string(prompt));
    const bool right =
        found != expected_.end() && found->second == Between(answer.body, "\"token_ids\":[", "]");
    (right ? counts_.answered : counts_.crossed).fetch_add(1);
    if (!right) std::fprintf(stderr, "soak: crossed: %s\n", answer.body.c_str());
  }

  void WatchMemory() {
    while (!over_.load()) {
      if (half_kib_ == 0 && counts_.asked >= requests_ / 2) half_kib_ = RssKib();
      end_kib_ = RssKib();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }

  const int64_t requests_;
  const int clients_;
  server::HttpServer* server_ = nullptr;
  std::vector<std::string> uploads_;
  std::map<std::string, std::string> expected_;  // by digest and prompt
  Counts counts_;
  std::atomic<int64_t> checks_{0};
  std::atomic<int64_t> failed_checks_{0};
  std::atomic<int64_t> half_kib_{0};
  std::atomic<int64_t> end_kib_{0};
  std::atomic<bool> over_{false};
};

}  // namespace

int main(int argc, char** argv) {
  int64_t requests = 10000;
  int clients = 16;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--requests") requests = std::atoll(argv[i + 1]);
    if (flag == "--clients") clients = std::atoi(argv[i + 1]);
  }
  return Soak(requests, clients).Run();
}
