#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/progress.h"
#include "lorica/base/machine.h"
#include "lorica/base/machine_context.h"
#include "lorica/kernels/open_backend.h"
#include "lorica/lora/adapter_loader.h"
#include "lorica/model/merge_folder.h"

namespace lorica::cli {
namespace {

struct MergeFlags {
  std::string model;
  std::string adapter;
  std::string out;
  std::string dtype = "float32";
};

Status Merge(const MergeFlags& flags) {
  if (flags.dtype != "float32" && flags.dtype != "keep") {
    return InvalidArgument("--dtype: expected float32 or keep, found \"" + flags.dtype + "\"");
  }
  MachineContext context(ReadMachineFacts().cores);
  LORICA_ASSIGN_OR_RETURN(const std::unique_ptr<kernels::Backend> backend,
                          kernels::OpenCpuBackend());
  LORICA_ASSIGN_OR_RETURN(
      const std::unique_ptr<model::Model> model,
      model::Model::Load(flags.model, model::ModelOptions(), backend.get(), &context));
  LORICA_ASSIGN_OR_RETURN(const std::shared_ptr<const lora::Adapter> adapter,
                          lora::LoadAdapter(flags.adapter, *model, {}, nullptr));
  return model::MergeFolder(
      flags.model, *model, *adapter,
      flags.dtype == "keep" ? model::MergedType::kKeep : model::MergedType::kFloat32, flags.out);
}

}  // namespace

void AddMergeCommand(CLI::App* app, int* exit_code) {
  CLI::App* command =
      app->add_subcommand("merge", "write base and adapter as one model folder: W + scale * B * A");
  auto flags = std::make_shared<MergeFlags>();
  command->add_option("MODEL", flags->model, "Hugging Face folder, or a GGUF file")->required();
  command->add_option("ADAPTER", flags->adapter, "adapter folder")->required();
  command->add_option("OUT", flags->out, "folder to make")->required();
  command
      ->add_option("--dtype", flags->dtype,
                   "float32, or keep: each weight in its checkpoint's type")
      ->capture_default_str();
  command->callback([flags, exit_code] {
    const Status status = Merge(*flags);
    if (!status.ok()) PrintError(status.message());
    *exit_code = status.ok() ? kServed : kNothingServed;
  });
}

}  // namespace lorica::cli
