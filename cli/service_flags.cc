#include "cli/service_flags.h"

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "cli/progress.h"

namespace lorica::cli {
namespace {

constexpr auto kModelGroup = "Model";
constexpr auto kAdapterGroup = "Adapters";
constexpr auto kEngineGroup = "Engine";

Result<std::vector<server::NamedPath>> ParseModules(const std::vector<std::string>& modules) {
  std::vector<server::NamedPath> parsed;
  for (const std::string& module : modules) {
    const size_t equals = module.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == module.size()) {
      return InvalidArgument("--lora-modules: expected NAME=PATH, found \"" + module + "\"");
    }
    parsed.push_back({module.substr(0, equals), module.substr(equals + 1)});
  }
  return parsed;
}

std::string ReadableBytes(int64_t bytes) {
  return bytes < (int64_t{1} << 20) ? std::to_string(bytes >> 10) + " KiB"
                                    : std::to_string(bytes >> 20) + " MiB";
}

// Usage errors are found before a model is loaded.
std::string CheckModule(const std::string& module) {
  const Result<std::vector<server::NamedPath>> parsed = ParseModules({module});
  return parsed.ok() ? "" : parsed.status().message();
}

}  // namespace

void AddServiceFlags(CLI::App* command, ServiceFlags* flags) {
  server::ServiceOptions* service = &flags->service;
  engine::EngineOptions* engine = &service->engine;
  command->add_option("MODEL", service->model_path, "Hugging Face folder or GGUF file")->required();

  command
      ->add_option("--served-model-name", service->served_names,
                   "names of the base model (default: the path's last part, without .gguf)")
      ->group(kModelGroup);
  command->add_option("--dtype", flags->dtype, "auto, float32 or bfloat16")
      ->check(CLI::IsMember({"auto", "float32", "bfloat16"}))
      ->capture_default_str()
      ->group(kModelGroup);
  command
      ->add_option("--weights", flags->weights,
                   "of the base: auto (as --dtype), bf16, int8 (a scale a row), q4 (blocks of 32), "
                   "or gguf (the file's own blocks)")
      ->check(CLI::IsMember({"auto", "bf16", "int8", "q4", "gguf"}))
      ->capture_default_str()
      ->group(kModelGroup);

  command
      ->add_option("--adapters", service->adapters_folder,
                   "folder whose direct entries are one adapter each, named after it")
      ->group(kAdapterGroup);
  command->add_option("--lora-modules", flags->lora_modules, "NAME=PATH of one adapter; repeatable")
      ->check(CLI::Validator(CheckModule, "NAME=PATH"))
      ->group(kAdapterGroup);
  command
      ->add_option("--adapter-bytes", engine->adapter_bytes,
                   "memory for adapters in use; K, M or G may follow (default 1G)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::NonNegativeNumber)
      ->group(kAdapterGroup);
  command
      ->add_option("--cold-bytes", engine->cold_bytes,
                   "memory for adapters not in use, before their files; K, M or G may follow "
                   "(default 1G)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::NonNegativeNumber)
      ->group(kAdapterGroup);
  command->add_option("--max-lora-rank", service->max_lora_rank, "refuse adapters of higher rank")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(kAdapterGroup);
  command->add_flag("--enable-lora", flags->enable_lora, "accepted; adapters are always on")
      ->group(kAdapterGroup);
  command
      ->add_option("--max-loras", flags->max_loras,
                   "accepted; adapters in one step are not limited")
      ->group(kAdapterGroup);

  command->add_option("--threads", service->threads, "threads that compute (default: every core)")
      ->check(CLI::Range(1, 1024))
      ->group(kEngineGroup);
  command->add_option("--max-num-seqs", engine->max_num_seqs, "sequences in one step at most")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str()
      ->group(kEngineGroup);
  command
      ->add_option("--max-num-batched-tokens", engine->max_num_batched_tokens,
                   "tokens in one step at most, which is the size of a prompt's chunk")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str()
      ->group(kEngineGroup);
  command
      ->add_option("--max-model-len", engine->max_model_len,
                   "longest sequence (default: the model's)")
      ->check(CLI::PositiveNumber)
      ->group(kEngineGroup);
  command
      ->add_option("--kv-bytes", engine->kv_bytes,
                   "memory for K and V; K, M or G may follow (default: a quarter of free memory)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::NonNegativeNumber)
      ->group(kEngineGroup);
  command
      ->add_option(
          "--kv-cache-dtype", service->kv_cache_dtype,
          "of K and V: auto, float32, bfloat16, float16 or int8 (a scale a head and token)")
      ->check(CLI::IsMember({"auto", "float32", "bfloat16", "float16", "int8"}))
      ->capture_default_str()
      ->group(kEngineGroup);
  command
      ->add_option("--speculate", engine->speculation,
                   "ngram: guess tokens from a request's own text and check several in one step; "
                   "answers stay the same to the bit (default: off)")
      ->transform(CLI::CheckedTransformer(std::map<std::string, engine::Speculation>{
          {"off", engine::Speculation::kOff}, {"ngram", engine::Speculation::kNgram}}))
      ->option_text("off|ngram")
      ->group(kEngineGroup);
}

Result<std::unique_ptr<server::Service>> OpenService(ServiceFlags* flags) {
  LORICA_ASSIGN_OR_RETURN(flags->service.compute_type, model::ParseComputeType(flags->dtype));
  LORICA_ASSIGN_OR_RETURN(flags->service.weight_type, model::ParseWeightType(flags->weights));
  LORICA_ASSIGN_OR_RETURN(flags->service.lora_modules, ParseModules(flags->lora_modules));
  Result<std::unique_ptr<server::Service>> service = [&] {
    Progress progress("loading " + flags->service.model_path);
    flags->service.progress = [&](double fraction) {
      progress.Update(std::to_string(static_cast<int>(fraction * 100)) + " %");
    };
    return server::Service::Open(flags->service);
  }();
  if (service.ok()) {
    const engine::EngineOptions& options = (*service)->engine().options();
    std::fprintf(stderr, "lorica: %s; --adapter-bytes %s, --kv-bytes %s\n",
                 std::string((*service)->model().backend().name()).c_str(),
                 ReadableBytes(options.adapter_bytes).c_str(),
                 ReadableBytes(options.kv_bytes).c_str());
  }
  return service;
}

}  // namespace lorica::cli
