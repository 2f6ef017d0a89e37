// Service: one base model, its adapters and an engine, opened from paths and options: what every
// command of the program stands on. The program owns it; it owns everything below. The engine
// runs on the thread that calls RunUntilIdle, or on its own after StartThread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lorica/base/machine_context.h"
#include "lorica/engine/engine.h"
#include "lorica/kernels/backend.h"
#include "lorica/model/model.h"
#include "lorica/server/adapter_admin.h"
#include "lorica/server/adapter_watcher.h"
#include "lorica/server/openai_api.h"

namespace lorica::server {

struct ServiceOptions {
  std::string model_path;
  std::vector<std::string> served_names;  // empty: the model path's last part
  std::string adapters_folder;            // empty: none
  bool watch_adapters = false;  // take in what comes to that folder, or changes in it, later
  std::vector<NamedPath> lora_modules;
  std::string merge;         // the name of one of these to serve merged into the base, alone
  std::string state_folder;  // uploads and unloads outlive the process in it; empty: they do not
  int64_t upload_limit_bytes = int64_t{1} << 30;
  int32_t threads = 0;  // 0: every core
  model::ComputeType compute_type = model::ComputeType::kAuto;
  model::WeightType weight_type = model::WeightType::kAuto;
  std::string kv_cache_dtype = "auto";
  int32_t max_lora_rank = 512;
  engine::EngineOptions engine;
  std::function<void(double fraction)> progress;  // of loading weights; may be empty
};

class Service {
 public:
  // The Status of a model that does not load. A refused adapter is never fatal: its reason is
  // logged in one line and answers its requests.
  static Result<std::unique_ptr<Service>> Open(const ServiceOptions& options);
  ~Service();

  OpenAiApi& api() { return *api_; }
  AdapterAdmin& admin() { return *admin_; }
  engine::Engine& engine() { return *engine_; }
  const model::Model& model() const { return *model_; }
  const std::shared_ptr<const formats::Tokenizer>& tokenizer() const { return tokenizer_; }
  MachineContext& context() { return *context_; }

  // Runs the engine on a thread of its own until Stop.
  void StartThread();
  void Stop();

 private:
  Service() = default;

  Status LoadModel(const ServiceOptions& options, int32_t threads);

  std::unique_ptr<MachineContext> context_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<model::Model> model_;
  std::shared_ptr<const formats::Tokenizer> tokenizer_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<OpenAiApi> api_;
  std::unique_ptr<AdapterAdmin> admin_;
  std::unique_ptr<AdapterWatcher> watcher_;
  std::thread thread_;
};

// Tokenizer of a model folder or GGUF file.
Result<std::shared_ptr<const formats::Tokenizer>> LoadTokenizer(const std::string& model_path);

}  // namespace lorica::server
