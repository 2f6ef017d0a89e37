#include "lorica/server/service.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "lorica/formats/json.h"
#include "lorica/server/batch_file.h"

namespace lorica::server {
namespace {

constexpr const char* kModel = "tests/fixtures/tiny/llama";

ServiceOptions TinyOptions() {
  ServiceOptions options;
  options.model_path = kModel;
  options.served_names = {"base"};
  options.adapters_folder = std::string(kModel) + "/adapters";
  options.threads = 2;
  options.engine.kv_bytes = int64_t{1} << 20;
  options.engine.adapter_bytes = int64_t{8} << 20;
  return options;
}

std::unique_ptr<Service> OpenTiny() {
  Result<std::unique_ptr<Service>> service = Service::Open(TinyOptions());
  if (!service.ok()) ADD_FAILURE() << service.status().ToString();
  return std::move(*service);
}

// Waits for one answer from whatever thread.
class Waiter {
 public:
  CompletionCallbacks callbacks() {
    CompletionCallbacks callbacks;
    callbacks.on_chunk = [this](std::string chunk) {
      const std::lock_guard<std::mutex> lock(mutex_);
      chunks_.push_back(std::move(chunk));
    };
    callbacks.on_done = [this](int status, std::string body) {
      const std::lock_guard<std::mutex> lock(mutex_);
      status_ = status;
      body_ = std::move(body);
      done_.notify_all();
    };
    return callbacks;
  }
  int Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return status_ != 0; });
    return status_;
  }
  const std::string& body() const { return body_; }
  const std::vector<std::string>& chunks() const { return chunks_; }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  int status_ = 0;
  std::string body_;
  std::vector<std::string> chunks_;
};

// The `choices` of a body, as text.
std::string Choices(const std::string& body) {
  Result<boost::json::value> value = formats::ParseJson(body);
  if (!value.ok()) {
    ADD_FAILURE() << body;
    return "";
  }
  return boost::json::serialize(value->at("choices"));
}

std::string Body(const std::string& model, int max_tokens, const std::string& extra = "") {
  return R"({"model":")" + model + R"(","prompt":[7,8,9],"max_tokens":)" +
         std::to_string(max_tokens) + R"(,"temperature":0,"logprobs":1,"ignore_eos":true)" + extra +
         "}";
}

TEST(Service, TenantsFromManyThreadsGetWhatEachGetsAlone) {
  std::unique_ptr<Service> service = OpenTiny();
  service->StartThread();
  const std::vector<std::string> tenants = {"base", "plain", "mlp", "rslora", "pattern"};
  std::vector<std::string> alone;
  for (const std::string& tenant : tenants) {
    Waiter waiter;
    auto started =
        service->api().StartCompletion(Body(tenant, 12), waiter.callbacks(), TransportKind::kHttp);
    ASSERT_TRUE(std::holds_alternative<std::shared_ptr<Completion>>(started));
    ASSERT_EQ(waiter.Wait(), 200);
    alone.push_back(Choices(waiter.body()));
  }
  std::vector<std::thread> clients;
  std::atomic<int> wrong{0};
  for (int c = 0; c < 8; ++c) {
    clients.emplace_back([&, c] {
      for (int i = 0; i < 6; ++i) {
        const size_t tenant = static_cast<size_t>(c + i) % tenants.size();
        Waiter waiter;
        auto started = service->api().StartCompletion(Body(tenants[tenant], 12), waiter.callbacks(),
                                                      TransportKind::kHttp);
        if (waiter.Wait() != 200 || Choices(waiter.body()) != alone[tenant]) ++wrong;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong.load(), 0);
  service->Stop();
  EXPECT_TRUE(service->engine().CheckIntegrity().ok());
}

TEST(Service, AStreamTellsTheSameAsTheBody) {
  std::unique_ptr<Service> service = OpenTiny();
  service->StartThread();
  Waiter whole;
  service->api().StartCompletion(Body("mlp", 9, R"(,"echo":true)"), whole.callbacks(),
                                 TransportKind::kHttp);
  ASSERT_EQ(whole.Wait(), 200);
  Waiter stream;
  service->api().StartCompletion(Body("mlp", 9, R"(,"echo":true,"stream":true)"),
                                 stream.callbacks(), TransportKind::kHttp);
  ASSERT_EQ(stream.Wait(), 200);
  std::string text;
  for (const std::string& chunk : stream.chunks()) {
    const auto value = formats::ParseJson(chunk);
    ASSERT_TRUE(value.ok());
    text += std::string(value->at("choices").at(0).at("text").as_string());
  }
  const auto value = formats::ParseJson(whole.body());
  EXPECT_EQ(text, std::string(value->at("choices").at(0).at("text").as_string()));
}

TEST(Service, CancelledCompletionsLeaveNothingBehind) {
  std::unique_ptr<Service> service = OpenTiny();
  service->StartThread();
  for (int i = 0; i < 20; ++i) {
    Waiter waiter;
    auto started = service->api().StartCompletion(Body("plain", 400), waiter.callbacks(),
                                                  TransportKind::kHttp);
    std::get<std::shared_ptr<Completion>>(started)->Cancel();
  }
  Waiter waiter;
  service->api().StartCompletion(Body("base", 4), waiter.callbacks(), TransportKind::kHttp);
  EXPECT_EQ(waiter.Wait(), 200);
  service->Stop();
  EXPECT_TRUE(service->engine().CheckIntegrity().ok());
  EXPECT_EQ(service->engine().metrics().Read().running, 0);
}

TEST(Service, ARefusedAdapterIsNeverFatal) {
  const std::string folder = testing::TempDir() + "service_test_adapters";
  std::filesystem::remove_all(folder);
  std::filesystem::copy(std::string(kModel) + "/adapters", folder,
                        std::filesystem::copy_options::recursive);
  std::ofstream(folder + "/mlp/adapter_config.json") << R"({"peft_type":"IA3"})";
  ServiceOptions options = TinyOptions();
  options.adapters_folder = folder;
  Result<std::unique_ptr<Service>> service = Service::Open(options);
  ASSERT_TRUE(service.ok());
  auto refused = (*service)->api().StartCompletion(Body("mlp", 4), {}, TransportKind::kHttp);
  ASSERT_TRUE(std::holds_alternative<ApiError>(refused));
  EXPECT_EQ(std::get<ApiError>(refused).http_status, 404);
  EXPECT_NE(std::get<ApiError>(refused).message.find("IA3"), std::string::npos);
  EXPECT_EQ((*service)->engine().registry().List().size(), 3u);
}

TEST(Service, AFolderForUploadsIsMadeAtTheFirst) {
  std::unique_ptr<Service> service = OpenTiny();
  std::set<std::filesystem::path> before;
  for (const auto& entry : std::filesystem::directory_iterator("/tmp")) before.insert(entry);
  const std::filesystem::path path = service->admin().NewBodyPath();
  EXPECT_FALSE(before.contains(path.parent_path())) << path;
  EXPECT_TRUE(std::ofstream(path).good()) << path;
  service.reset();
  EXPECT_FALSE(std::filesystem::exists(path.parent_path()));
}

TEST(Service, AnAdaptersDefaultsAreOfOneVersion) {
  std::unique_ptr<Service> service = OpenTiny();
  service->StartThread();
  const auto ask = [&] {
    Waiter waiter;
    service->api().StartCompletion(Body("plain", 12), waiter.callbacks(), TransportKind::kHttp);
    EXPECT_EQ(waiter.Wait(), 200);
    return Choices(waiter.body());
  };
  const std::string without = ask();
  std::string digest;
  {
    const auto version = service->engine().registry().Acquire("plain");
    ASSERT_TRUE(version.ok());
    digest = version->version().digest();
  }
  GenerationDefaults defaults;
  defaults.repetition_penalty = 50.0;
  service->api().SetAdapterDefaults("plain", "of a version that is not published", defaults);
  EXPECT_EQ(ask(), without);
  service->api().SetAdapterDefaults("plain", digest, defaults);
  EXPECT_NE(ask(), without);
  service->api().KeepAdapterDefaults("plain", digest);
  EXPECT_NE(ask(), without);
  service->api().KeepAdapterDefaults("plain", "");
  EXPECT_EQ(ask(), without);
}

// Log-probabilities of a prompt's tokens.
std::vector<double> Rate(Service* service, const std::string& model) {
  Waiter waiter;
  service->api().StartCompletion(
      R"({"model":")" + model +
          R"(","prompt":[7,8,9,40,41,3,2,77,5],"max_tokens":0,"echo":true,"logprobs":0})",
      waiter.callbacks(), TransportKind::kHttp);
  EXPECT_EQ(waiter.Wait(), 200);
  const auto value = formats::ParseJson(waiter.body());
  std::vector<double> rated;
  if (!value.ok()) return rated;
  const auto& list = value->at("choices").at(0).at("logprobs").at("token_logprobs").as_array();
  for (size_t i = 1; i < list.size(); ++i) rated.push_back(list[i].to_number<double>());
  return rated;
}

// --merge NAME, into a folder and into a GGUF file.
TEST(Service, OneMergedAdapterAnswersAsItDoesBesideTheBase) {
  for (const char* path :
       {"tests/fixtures/tiny/llama", "tests/fixtures/tiny/llama_gguf/model.gguf"}) {
    SCOPED_TRACE(path);
    ServiceOptions options = TinyOptions();
    options.model_path = path;
    options.compute_type = model::ComputeType::kFloat32;
    options.adapters_folder = std::filesystem::path(path).extension() == ".gguf"
                                  ? std::filesystem::path(path).parent_path().string() + "/adapters"
                                  : std::string(path) + "/adapters";
    auto beside = Service::Open(options);
    ASSERT_TRUE(beside.ok()) << beside.status().ToString();
    (*beside)->StartThread();
    for (const char* name : {"plain", "mlp", "pattern", "rslora"}) {
      options.merge = name;
      auto merged = Service::Open(options);
      ASSERT_TRUE(merged.ok()) << merged.status().ToString();
      (*merged)->StartThread();
      const std::vector<double> base = Rate(beside->get(), "base");
      const std::vector<double> dynamic = Rate(beside->get(), name);
      const std::vector<double> alone = Rate(merged->get(), name);
      ASSERT_EQ(dynamic.size(), 8u);
      ASSERT_EQ(alone.size(), 8u);
      double far = 0.0;
      double moved = 0.0;
      for (size_t i = 0; i < alone.size(); ++i) {
        far = std::max(far, std::fabs(alone[i] - dynamic[i]));
        moved = std::max(moved, std::fabs(base[i] - dynamic[i]));
      }
      EXPECT_LT(far, 2e-5) << name;
      EXPECT_GT(moved, 0.01) << name;
      EXPECT_TRUE((*merged)->engine().registry().List().empty());
    }
    options.merge = "nobody";
    EXPECT_EQ(Service::Open(options).status().code(), StatusCode::kNotFound);
  }
}

TEST(BatchFile, AnswersInOrderAndGoesOnAfterBadLines) {
  std::unique_ptr<Service> service = OpenTiny();
  std::string input;
  for (int i = 0; i < 6; ++i) {
    input += R"({"custom_id":")" + std::to_string(i) + R"(","url":"/v1/completions","body":)" +
             Body(i % 2 == 0 ? "plain" : "base", 12 - 2 * i) + "}\n";
  }
  input += "{\n\n" + std::string(R"({"custom_id":"s","url":"/v1/completions","body":)") +
           Body("base", 1, R"(,"stream":true)") + "}\n";
  std::istringstream in(input);
  std::ostringstream out;
  Result<BatchCounts> counts = RunBatchFile(&in, &out, service.get(), {});
  ASSERT_TRUE(counts.ok());
  EXPECT_EQ(counts->lines, 8);
  EXPECT_EQ(counts->failed, 2);
  std::istringstream lines(out.str());
  std::string line;
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(std::getline(lines, line));
    const auto value = formats::ParseJson(line);
    ASSERT_TRUE(value.ok());
    EXPECT_EQ(value->at("custom_id").as_string(), std::to_string(i));
    EXPECT_EQ(value->at("response").at("status_code").as_int64(), 200);
  }
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_NE(line.find("line 7"), std::string::npos) << line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_NE(line.find("stream"), std::string::npos) << line;
  EXPECT_FALSE(std::getline(lines, line));
}

}  // namespace
}  // namespace lorica::server
