#include "lorica/server/service.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "lorica/base/log.h"
#include "lorica/formats/gguf.h"
#include "lorica/kernels/open_backend.h"
#include "lorica/lora/adapter_loader.h"

namespace lorica::server {
namespace {

namespace fs = std::filesystem;

std::string LastPart(const std::string& path) {
  fs::path p(path);
  if (!p.has_filename()) p = p.parent_path();
  return p.extension() == ".gguf" ? p.stem().string() : p.filename().string();
}

// The direct entries of the folder, one adapter each, by name.
Result<std::vector<NamedPath>> ListAdapters(const std::string& folder) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error) return NotFound("--adapters " + folder + ": cannot be read: " + error.message());
  const fs::path root = fs::canonical(folder, error);
  std::vector<NamedPath> adapters;
  for (const fs::directory_entry& entry : entries) {
    const std::string path = entry.path().string();
    if (entry.path().filename().string().front() == '.') continue;
    const bool is_gguf = entry.path().extension() == ".gguf";
    if (!entry.is_directory(error) && !is_gguf) continue;
    adapters.push_back({LastPart(path), path});
  }
  std::sort(adapters.begin(), adapters.end(),
            [](const NamedPath& a, const NamedPath& b) { return a.name < b.name; });
  return adapters;
}

// Links are followed for --lora-modules (hub caches consist of them), never out of --adapters.
Status CheckInside(const std::string& folder, const std::string& path) {
  std::error_code error;
  const fs::path root = fs::canonical(folder, error);
  const fs::path target = fs::canonical(path, error);
  if (error) return NotFound(path + ": cannot be resolved: " + error.message());
  std::vector<fs::path> inside = {target};
  if (fs::is_directory(target, error)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(target, error)) {
      inside.push_back(fs::canonical(entry.path(), error));
      if (error) return NotFound(entry.path().string() + ": a link that leads nowhere");
    }
  }
  for (const fs::path& real : inside) {
    if (std::mismatch(root.begin(), root.end(), real.begin(), real.end()).first != root.end()) {
      return InvalidArgument(path + ": a link leads out of " + folder + ", to " + real.string());
    }
  }
  return OkStatus();
}

Result<DType> KvDType(const std::string& text, const model::Model& model) {
  if (text == "auto") {
    return model.compute_type() == model::ComputeType::kBfloat16 ? DType::kBF16 : DType::kF32;
  }
  if (text == "float32") return DType::kF32;
  if (text == "bfloat16") return DType::kBF16;
  if (text == "float16") return DType::kF16;
  return InvalidArgument("--kv-cache-dtype: expected auto, float32, bfloat16 or float16, found \"" +
                         text + "\"");
}

}  // namespace

Result<std::shared_ptr<const formats::Tokenizer>> LoadTokenizer(const std::string& model_path) {
  if (fs::path(model_path).extension() != ".gguf") return formats::LoadTokenizerFolder(model_path);
  LORICA_ASSIGN_OR_RETURN(const formats::GgufFile file,
                          formats::GgufFile::Open(model_path, MappedFile::Mode::kMap));
  return formats::LoadTokenizerGguf(file);
}

Result<std::unique_ptr<Service>> Service::Open(const ServiceOptions& options) {
  std::unique_ptr<Service> service(new Service());
  const int32_t threads = options.threads > 0 ? options.threads : ReadMachineFacts().cores;
  service->context_ = std::make_unique<MachineContext>(threads);
  LORICA_ASSIGN_OR_RETURN(service->backend_, kernels::OpenCpuBackend());
  LORICA_ASSIGN_OR_RETURN(
      service->model_,
      model::Model::Load(options.model_path,
                         {.compute_type = options.compute_type, .progress = options.progress},
                         service->backend_.get(), service->context_.get()));
  LORICA_ASSIGN_OR_RETURN(service->tokenizer_, LoadTokenizer(options.model_path));

  engine::EngineOptions engine_options = options.engine;
  LORICA_ASSIGN_OR_RETURN(engine_options.kv_dtype,
                          KvDType(options.kv_cache_dtype, *service->model_));
  LORICA_ASSIGN_OR_RETURN(service->engine_,
                          engine::Engine::Create(service->model_.get(), service->tokenizer_,
                                                 engine_options, service->context_.get()));
  OpenAiApi::Options api;
  api.engine = service->engine_.get();
  api.model = service->model_.get();
  api.tokenizer = service->tokenizer_;
  api.base_names = options.served_names;
  if (api.base_names.empty()) api.base_names.push_back(LastPart(options.model_path));
  LORICA_ASSIGN_OR_RETURN(api.model_defaults, ReadGenerationDefaults(options.model_path));
  service->api_ = std::make_unique<OpenAiApi>(std::move(api));
  service->LoadAdapters(options);
  return service;
}

Service::~Service() { Stop(); }

void Service::LoadAdapters(const ServiceOptions& options) {
  for (const NamedPath& adapter : options.lora_modules) LoadOne(adapter, options);
  if (options.adapters_folder.empty()) return;
  Result<std::vector<NamedPath>> listed = ListAdapters(options.adapters_folder);
  if (!listed.ok()) return LogError(listed.status().message());
  for (const NamedPath& adapter : *listed) {
    const Status inside = CheckInside(options.adapters_folder, adapter.path);
    if (inside.ok()) {
      LoadOne(adapter, options);
    } else {
      LogError("adapter " + adapter.name + " is refused: " + inside.message());
      engine_->registry().Refuse(adapter.name, inside);
    }
  }
}

void Service::LoadOne(const NamedPath& adapter, const ServiceOptions& options) {
  if (engine_->registry().Contains(adapter.name) || api_->IsBaseName(adapter.name)) {
    return LogError("adapter " + adapter.name + " at " + adapter.path +
                    " is refused: the name is taken; the first of a name stays");
  }
  const auto load = [&]() -> Status {
    lora::LoadOptions load_options;
    load_options.max_rank = options.max_lora_rank;
    load_options.ledger = &context_->ledger;
    std::vector<std::string> warnings;
    LORICA_ASSIGN_OR_RETURN(std::shared_ptr<const lora::Adapter> loaded,
                            lora::LoadAdapter(adapter.path, *model_, load_options, &warnings));
    for (const std::string& warning : warnings) {
      LogWarning("adapter " + adapter.name + ": " + warning);
    }
    LORICA_ASSIGN_OR_RETURN(GenerationDefaults defaults, ReadGenerationDefaults(adapter.path));
    LORICA_RETURN_IF_ERROR(engine_->PublishAdapter(adapter.name, std::move(loaded)));
    api_->SetAdapterDefaults(adapter.name, std::move(defaults));
    return OkStatus();
  };
  const Status status = load();
  if (status.ok()) return;
  LogError("adapter " + adapter.name + " is refused: " + status.message());
  engine_->registry().Refuse(adapter.name, status);
}

void Service::StartThread() {
  thread_ = std::thread([this] {
    while (engine_->WaitForWork()) engine_->Step();
  });
}

void Service::Stop() {
  if (!thread_.joinable()) return;
  engine_->Stop();
  thread_.join();
}

}  // namespace lorica::server
