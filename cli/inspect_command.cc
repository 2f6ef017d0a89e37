#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/progress.h"
#include "lorica/base/machine_context.h"
#include "lorica/formats/gguf.h"
#include "lorica/kernels/open_backend.h"
#include "lorica/lora/adapter_loader.h"
#include "lorica/model/model.h"
#include "lorica/server/service.h"

namespace lorica::cli {
namespace {

struct InspectFlags {
  std::string path;
  std::string model;
  int32_t max_lora_rank = 512;
};

// A base model with what it stands on.
struct LoadedModel {
  std::unique_ptr<MachineContext> context;
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<model::Model> model;
};

Result<LoadedModel> LoadModel(const std::string& path) {
  LoadedModel loaded;
  loaded.context = std::make_unique<MachineContext>(ReadMachineFacts().cores);
  LORICA_ASSIGN_OR_RETURN(loaded.backend, kernels::OpenCpuBackend());
  Progress progress("reading " + path);
  model::ModelOptions options;
  options.progress = [&](double fraction) {
    progress.Update(std::to_string(static_cast<int>(fraction * 100)) + " %");
  };
  LORICA_ASSIGN_OR_RETURN(
      loaded.model, model::Model::Load(path, options, loaded.backend.get(), loaded.context.get()));
  return loaded;
}

bool IsAdapter(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::is_directory(path, error)) return !fs::exists(path + "/config.json", error);
  Result<formats::GgufFile> file = formats::GgufFile::Open(path, MappedFile::Mode::kMap);
  if (!file.ok()) return false;
  Result<std::optional<std::string>> type = file->FindString("general.type");
  return type.ok() && *type == "adapter";
}

void PrintReasons(const std::vector<Status>& reasons) {
  for (const Status& reason : reasons) std::printf("refused: %s\n", reason.message().c_str());
}

void PrintModules(const std::vector<lora::ModuleReport>& modules) {
  std::printf("%-44s %5s %8s %10s  %-14s %s\n", "module", "rank", "alpha", "scale", "K -> N",
              "A, B kept as");
  for (const lora::ModuleReport& module : modules) {
    const std::string shape = std::to_string(module.k) + " -> " + std::to_string(module.n);
    const std::string kept = std::string(DTypeName(module.kept_dtype_a)) + ", " +
                             std::string(DTypeName(module.kept_dtype_b));
    std::printf("%-44s %5lld %8g %10g  %-14s %s\n", module.path.c_str(),
                static_cast<long long>(module.rank), module.alpha, module.scale, shape.c_str(),
                kept.c_str());
  }
}

int InspectAdapterPath(const InspectFlags& flags) {
  LoadedModel base;
  if (!flags.model.empty()) {
    Result<LoadedModel> loaded = LoadModel(flags.model);
    if (!loaded.ok()) {
      PrintError("--model " + loaded.status().message());
      return kNothingServed;
    }
    base = std::move(*loaded);
  }
  lora::LoadOptions options;
  options.max_rank = flags.max_lora_rank;
  const lora::AdapterReport report = lora::InspectAdapter(flags.path, base.model.get(), options);
  std::printf("adapter  %s\n", flags.path.c_str());
  if (!report.base_model.empty()) std::printf("trained on  %s\n", report.base_model.c_str());
  if (!report.modules.empty()) PrintModules(report.modules);
  for (const std::string& warning : report.warnings) std::printf("warning: %s\n", warning.c_str());
  PrintReasons(report.reasons);
  if (!report.reasons.empty()) return kNothingServed;
  std::printf("digest  %s\n", report.digest.c_str());
  std::printf("would load%s\n", base.model == nullptr ? "; name --model to check it against a base"
                                                      : (" on " + flags.model).c_str());
  return kServed;
}

int InspectModelPath(const InspectFlags& flags) {
  Result<LoadedModel> loaded = LoadModel(flags.path);
  std::vector<Status> reasons;
  if (!loaded.ok()) reasons.push_back(loaded.status());
  Result<std::shared_ptr<const formats::Tokenizer>> tokenizer = server::LoadTokenizer(flags.path);
  if (!tokenizer.ok()) reasons.push_back(tokenizer.status());
  std::printf("model  %s\n", flags.path.c_str());
  if (loaded.ok()) {
    const model::ModelConfig& config = loaded->model->config();
    std::printf("family  %s, stored as %s\n", std::string(model::FamilyName(config.family)).c_str(),
                std::string(DTypeName(config.checkpoint_dtype)).c_str());
    std::printf("layers  %d of width %d, ffn %d, heads %d (kv %d) of %d, vocabulary %d%s\n",
                config.layers, config.width, config.ffn_width, config.heads, config.kv_heads,
                config.head_dim, config.vocab, config.tied_head ? ", tied head" : "");
    std::printf("context  %lld tokens\n", static_cast<long long>(config.max_positions));
    std::printf(
        "packed weights  %.1f MiB, computing in %s\n",
        static_cast<double>(loaded->context->ledger.bytes(MemoryTag::kWeights)) / (1 << 20),
        loaded->model->compute_type() == model::ComputeType::kBfloat16 ? "bfloat16" : "float32");
    std::printf("digest  %s\n", loaded->model->digest().c_str());
  }
  if (tokenizer.ok()) std::printf("tokenizer  %d tokens\n", (*tokenizer)->vocab_size());
  PrintReasons(reasons);
  if (!reasons.empty()) return kNothingServed;
  std::printf("would load\n");
  return kServed;
}

}  // namespace

void AddInspectCommand(CLI::App* app, int* exit_code) {
  CLI::App* command = app->add_subcommand(
      "inspect",
      "what a model or an adapter holds, whether it would load, and every reason why not");
  auto flags = std::make_shared<InspectFlags>();
  command->add_option("PATH", flags->path, "model or adapter: a folder or a GGUF file")->required();
  command->add_option("--model", flags->model, "base model to check an adapter against");
  command->add_option("--max-lora-rank", flags->max_lora_rank, "refuse adapters of higher rank")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->callback([flags, exit_code] {
    std::error_code error;
    if (!std::filesystem::exists(flags->path, error)) {
      PrintError(flags->path + ": no such file or folder");
      *exit_code = kNothingServed;
      return;
    }
    *exit_code = IsAdapter(flags->path) ? InspectAdapterPath(*flags) : InspectModelPath(*flags);
  });
}

}  // namespace lorica::cli
