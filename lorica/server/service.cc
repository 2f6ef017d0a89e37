#include "lorica/server/service.h"

#include <filesystem>

#include "lorica/formats/gguf.h"
#include "lorica/kernels/open_backend.h"
#include "lorica/lora/adapter_loader.h"

namespace lorica::server {
namespace {

namespace fs = std::filesystem;

Result<DType> KvDType(const std::string& text, const model::Model& model) {
  if (text == "auto") {
    return model.compute_type() == model::ComputeType::kBfloat16 ? DType::kBF16 : DType::kF32;
  }
  if (text == "float32") return DType::kF32;
  if (text == "bfloat16") return DType::kBF16;
  if (text == "float16") return DType::kF16;
  if (text == "int8") return DType::kI8;
  return InvalidArgument(
      "--kv-cache-dtype: expected auto, float32, bfloat16, float16 or int8, found \"" + text +
      "\"");
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
  LORICA_RETURN_IF_ERROR(service->LoadModel(options, threads));
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
  if (!options.merge.empty()) {
    api.base_names = {options.merge};
  } else if (api.base_names.empty()) {
    api.base_names.push_back(LastPart(options.model_path));
  }
  LORICA_ASSIGN_OR_RETURN(api.model_defaults, ReadGenerationDefaults(options.model_path));
  service->api_ = std::make_unique<OpenAiApi>(std::move(api));
  AdapterAdmin::Options admin;
  admin.engine = service->engine_.get();
  admin.model = service->model_.get();
  admin.api = service->api_.get();
  admin.model_name = LastPart(options.model_path);
  if (options.merge.empty()) {
    admin.adapters_folder = options.adapters_folder;
    admin.state_folder = options.state_folder;
  }
  admin.watch_folder = options.watch_adapters;
  admin.load.max_rank = options.max_lora_rank;
  admin.load.ledger = &service->context_->ledger;
  admin.upload_limit_bytes = options.upload_limit_bytes;
  LORICA_ASSIGN_OR_RETURN(service->admin_, AdapterAdmin::Open(admin));
  // Others were trained on the base alone and would answer wrongly on this one.
  if (options.merge.empty()) service->admin_->LoadAtStart(options.lora_modules);
  if (options.watch_adapters && !admin.adapters_folder.empty()) {
    service->watcher_ = std::make_unique<AdapterWatcher>(service->admin_.get());
  }
  return service;
}

Status Service::LoadModel(const ServiceOptions& options, int32_t threads) {
  context_ = std::make_unique<MachineContext>(threads);
  LORICA_ASSIGN_OR_RETURN(backend_, kernels::OpenCpuBackend());
  model::ModelOptions load;
  load.compute_type = options.compute_type;
  load.weight_type = options.weight_type;
  load.progress = options.progress;
  LORICA_ASSIGN_OR_RETURN(
      model_, model::Model::Load(options.model_path, load, backend_.get(), context_.get()));
  if (options.merge.empty()) return OkStatus();

  std::string path;
  for (const NamedPath& module : options.lora_modules) {
    if (module.name == options.merge) path = module.path;
  }
  if (path.empty() && !options.adapters_folder.empty()) {
    LORICA_ASSIGN_OR_RETURN(const std::vector<NamedPath> listed,
                            ListAdapters(options.adapters_folder));
    for (const NamedPath& adapter : listed) {
      if (adapter.name == options.merge) path = adapter.path;
    }
  }
  if (path.empty()) {
    return NotFound("--merge " + options.merge + ": no adapter of --lora-modules or --adapters");
  }
  lora::LoadOptions adapter_load;
  adapter_load.max_rank = options.max_lora_rank;
  LORICA_ASSIGN_OR_RETURN(const std::shared_ptr<const lora::Adapter> adapter,
                          lora::LoadAdapter(path, *model_, adapter_load, nullptr));
  // The base was needed to check the adapter against; its memory goes before the merged one's
  // comes.
  model_.reset();
  load.merge = adapter.get();
  LORICA_ASSIGN_OR_RETURN(
      model_, model::Model::Load(options.model_path, load, backend_.get(), context_.get()));
  return OkStatus();
}

Service::~Service() { Stop(); }

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
