#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>

#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/progress.h"
#include "cli/service_flags.h"
#include "lorica/server/batch_file.h"

namespace lorica::cli {
namespace {

struct RunBatchFlags {
  ServiceFlags service;
  std::string input;
  std::string output;
};

int RunBatch(RunBatchFlags* flags) {
  std::ifstream in_file;
  if (flags->input != "-") {
    in_file.open(flags->input);
    if (!in_file || std::filesystem::is_directory(flags->input)) {
      PrintError("--input-file " + flags->input + ": cannot be read");
      return kNothingServed;
    }
  }
  std::error_code error;
  if (std::filesystem::equivalent(flags->input, flags->output, error)) {
    PrintError("--output-file " + flags->output + ": expected another file than the input");
    return kUsage;
  }
  // Opened before the model is loaded, which may take minutes.
  std::ofstream out_file;
  if (flags->output != "-") {
    out_file.open(flags->output, std::ios::binary | std::ios::trunc);
    if (!out_file) {
      PrintError("--output-file " + flags->output + ": cannot be written");
      return kNothingServed;
    }
  }
  Result<std::unique_ptr<server::Service>> service = OpenService(&flags->service);
  if (!service.ok()) {
    PrintError(service.status().message());
    return kNothingServed;
  }
  std::istream& in = flags->input == "-" ? std::cin : in_file;
  std::ostream& out = flags->output == "-" ? std::cout : out_file;
  Progress progress("answering");
  Result<server::BatchCounts> counts =
      server::RunBatchFile(&in, &out, service->get(), [&](const server::BatchCounts& done) {
        progress.Update(std::to_string(done.lines) + " requests");
      });
  if (!counts.ok() || !out.flush()) {
    PrintError(counts.ok() ? "the output file cannot be written" : counts.status().message());
    return kNothingServed;
  }
  const engine::MetricValues metrics = (*service)->engine().metrics().Read();
  std::fprintf(stderr, "lorica: %lld requests, %lld failed; %lld steps, %lld preemptions\n",
               static_cast<long long>(counts->lines), static_cast<long long>(counts->failed),
               static_cast<long long>(metrics.steps), static_cast<long long>(metrics.preemptions));
  if ((*service)->engine().options().speculation != engine::Speculation::kOff) {
    std::fprintf(stderr, "lorica: %lld tokens guessed, %lld of them right\n",
                 static_cast<long long>(metrics.drafted_tokens),
                 static_cast<long long>(metrics.accepted_tokens));
  }
  return kServed;
}

}  // namespace

void AddRunBatchCommand(CLI::App* app, int* exit_code) {
  CLI::App* command = app->add_subcommand(
      "run-batch", "answer a file of requests in OpenAI's batch format, in mixed batches");
  auto flags = std::make_shared<RunBatchFlags>();
  AddServiceFlags(command, &flags->service);
  command
      ->add_option("-i,--input-file", flags->input, "requests, one JSON object a line; - is stdin")
      ->required();
  command->add_option("-o,--output-file", flags->output, "answers, a line each; - is stdout")
      ->required();
  command->callback([flags, exit_code] { *exit_code = RunBatch(flags.get()); });
}

}  // namespace lorica::cli
