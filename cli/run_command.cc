#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/progress.h"
#include "cli/service_flags.h"
#include "lorica/base/mapped_file.h"

namespace lorica::cli {
namespace {

constexpr const char* kBaseTenant = "base";
constexpr int64_t kPromptLimitBytes = int64_t{64} << 20;

struct RunFlags {
  ServiceFlags service;
  std::string prompt;
  std::string prompt_file;
  std::vector<std::string> tenants = {kBaseTenant};
  engine::SamplingParams sampling;
  bool stats = false;
};

struct Answer {
  std::string tenant;
  std::string text;
  int64_t tokens = 0;
  bool ended = false;
  Status status;
};

// Asks for every tenant at once, so that all share each step, and steps until all have ended.
// Prints as it goes when there is a single one.
void AnswerAll(const RunFlags& flags, server::Service* service, std::vector<Answer>* answers) {
  const bool stream = answers->size() == 1;
  Result<std::vector<int32_t>> prompt = service->tokenizer()->Encode(flags.prompt);
  for (Answer& answer : *answers) {
    if (!prompt.ok()) {
      answer.status = prompt.status();
      continue;
    }
    engine::Request request;
    request.prompt = *prompt;
    request.sampling = flags.sampling;
    // An adapter that is called "base" is that adapter.
    const bool is_adapter = service->engine().registry().Contains(answer.tenant);
    const bool is_base = answer.tenant == kBaseTenant || service->api().IsBaseName(answer.tenant);
    if (is_adapter || !is_base) request.adapter = answer.tenant;
    Result<engine::RequestId> id =
        service->engine().Submit(std::move(request), [&answer, stream](engine::Event event) {
          answer.text += event.text;
          answer.tokens += static_cast<int64_t>(event.tokens.size());
          answer.status = event.status;
          if (!stream) return;
          std::fputs(event.text.c_str(), stdout);
          std::fflush(stdout);
        });
    if (!id.ok()) answer.status = id.status();
  }
  service->engine().RunUntilIdle();
}

void PrintStats(server::Service* service, const std::vector<Answer>& answers, double seconds) {
  int64_t tokens = 0;
  for (const Answer& answer : answers) tokens += answer.tokens;
  const engine::MetricValues metrics = service->engine().metrics().Read();
  std::printf("%-24s %10s\n", "tokens generated", std::to_string(tokens).c_str());
  std::printf("%-24s %10.1f\n", "tokens/s", static_cast<double>(tokens) / seconds);
  std::printf("%-24s %10lld\n", "steps", static_cast<long long>(metrics.steps));
  std::printf("%-24s %10.2f\n", "segments a step", metrics.MeanSegments());
  std::printf("%-24s %9.1f%%\n", "LoRA's share of a step", 100.0 * metrics.LoraShare());
  if (service->engine().options().speculation == engine::Speculation::kOff) return;
  std::printf("%-24s %10lld\n", "tokens guessed", static_cast<long long>(metrics.drafted_tokens));
  std::printf("%-24s %10lld\n", "of them right", static_cast<long long>(metrics.accepted_tokens));
}

int Run(RunFlags* flags) {
  if (!flags->prompt_file.empty()) {
    Result<MappedFile> file =
        MappedFile::Open(flags->prompt_file, MappedFile::Mode::kRead, kPromptLimitBytes);
    if (!file.ok()) {
      PrintError("--prompt-file " + file.status().message());
      return kNothingServed;
    }
    flags->prompt = file->text();
  }
  Result<std::unique_ptr<server::Service>> service = OpenService(&flags->service);
  if (!service.ok()) {
    PrintError(service.status().message());
    return kNothingServed;
  }
  std::vector<Answer> answers(flags->tenants.size());
  for (size_t i = 0; i < answers.size(); ++i) answers[i].tenant = flags->tenants[i];
  const auto begin = std::chrono::steady_clock::now();
  AnswerAll(*flags, service->get(), &answers);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;

  int exit_code = kNothingServed;
  for (const Answer& answer : answers) {
    if (!answer.status.ok()) {
      PrintError(answer.tenant + ": " + answer.status.message());
      continue;
    }
    exit_code = kServed;
    if (answers.size() > 1) std::printf("--- %s\n%s\n", answer.tenant.c_str(), answer.text.c_str());
  }
  if (answers.size() == 1 && exit_code == kServed) std::printf("\n");
  if (flags->stats) PrintStats(service->get(), answers, elapsed.count());
  return exit_code;
}

}  // namespace

void AddRunCommand(CLI::App* app, int* exit_code) {
  CLI::App* command = app->add_subcommand(
      "run", "answer one prompt for one or several tenants, in one mixed batch");
  auto flags = std::make_shared<RunFlags>();
  flags->sampling.temperature = 0.0;
  flags->sampling.max_tokens = 128;
  AddServiceFlags(command, &flags->service);
  engine::SamplingParams* sampling = &flags->sampling;
  constexpr auto kGroup = "Prompt and sampling";
  CLI::Option_group* prompt = command->add_option_group("Prompt");
  prompt->add_option("-p,--prompt", flags->prompt, "the prompt");
  prompt->add_option("--prompt-file", flags->prompt_file, "a file that holds it");
  prompt->require_option(1);
  command
      ->add_option("--as", flags->tenants,
                   "adapters to answer as, comma between them; base is the bare model")
      ->delimiter(',')
      ->check(CLI::Validator(
          [](std::string& name) { return name.empty() ? "a tenant has no name" : ""; }, "NAME"))
      ->capture_default_str()
      ->group(kGroup);
  command->add_option("--max-tokens", sampling->max_tokens, "tokens to generate at most")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(kGroup);
  command
      ->add_option("--temperature", sampling->temperature,
                   "0 takes the best token, which run does unless told otherwise")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str()
      ->group(kGroup);
  command->add_option("--top-k", sampling->top_k, "keep the K best; 0 keeps all")
      ->check(CLI::NonNegativeNumber)
      ->group(kGroup);
  command->add_option("--top-p", sampling->top_p, "keep the best that sum to P")
      ->check(CLI::Range(1e-9, 1.0))
      ->group(kGroup);
  command->add_option("--seed", sampling->seed, "of the random draws")->group(kGroup);
  command->add_option("--stop", sampling->stop, "end at this text; repeatable")->group(kGroup);
  command->add_flag("--ignore-eos", sampling->ignore_eos, "go on past end tokens")->group(kGroup);
  command->add_flag("--stats", flags->stats, "print tokens/s, steps and LoRA's share")
      ->group(kGroup);
  command->callback([flags, exit_code] { *exit_code = Run(flags.get()); });
}

}  // namespace lorica::cli
