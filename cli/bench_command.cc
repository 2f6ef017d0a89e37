#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "bench/adapters_bench.h"
#include "bench/attention_bench.h"
#include "bench/linear_bench.h"
#include "bench/lora_bench.h"
#include "bench/step_bench.h"
#include "cli/commands.h"

namespace lorica::cli {

namespace {

void AddStepBench(CLI::App* command, int* exit_code) {
  auto step = std::make_shared<bench::StepBenchOptions>();
  CLI::App* bench = command->add_subcommand(
      "step", "decode steps of a model, base alone and an adapter a sequence; prompts; curves");
  auto* model = bench->add_option("MODEL", step->model.path,
                                  "a model; without one, random weights of --shape");
  bench->add_option("--shape", step->model.shape, "of the random weights: 1.2b or smollm2")
      ->capture_default_str();
  auto* synthetic = bench->add_flag("--synthetic")->description("the default without a MODEL");
  synthetic->excludes(model);
  bench->add_option("--dtype", step->model.dtype, "float32 or bfloat16")->capture_default_str();
  bench->add_option("--weights", step->model.weights, "of the base: auto, bf16, int8, q4 or gguf")
      ->check(CLI::IsMember({"auto", "bf16", "int8", "q4", "gguf"}))
      ->capture_default_str();
  bench->add_option("--threads", step->threads, "threads that compute (default: every core)")
      ->check(CLI::Range(1, 1024));
  bench
      ->add_option("--sequences", step->sequences,
                   "sequences that decode together; a table of each of several")
      ->delimiter(',')
      ->check(CLI::Range(1, 512))
      ->capture_default_str();
  bench->add_option("--context", step->context, "prompt tokens of each")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  bench->add_option("--ranks", step->ranks, "of the adapters, in turn; a curve takes the first")
      ->delimiter(',')
      ->check(CLI::Range(1, 512))
      ->capture_default_str();
  bench->add_option("--steps", step->steps, "decode steps of a turn")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  bench->add_option("--turns", step->turns, "turns of base, then adapters")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  bench->add_flag("--breakdown", step->breakdown,
                  "where a step's time goes, part by part, beside the floor of each");
  auto* prefill = bench->add_option("--prefill", step->prefill,
                                    "instead, a prompt of so many tokens until its first token");
  prefill->check(CLI::Range(1, 8000));
  bench
      ->add_option("--scaling", step->scaling,
                   "instead, the step's time over: distinct adapters in the batch, their rank, "
                   "the batch, the context, the adapters loaded (rank 8 on q and v) or the threads")
      ->check(CLI::IsMember({"distinct", "rank", "batch", "context", "loaded", "threads"}))
      ->excludes(prefill);
  bench->add_option("--csv", step->csv, "a file for the figures");
  bench->callback([=] { *exit_code = bench::RunStepBench(*step, stdout); });
}

}  // namespace

void AddBenchCommand(CLI::App* app, int* exit_code) {
  CLI::App* command =
      app->add_subcommand("bench", "how fast this machine is, and how far from its own limit");
  command->require_subcommand(1);

  auto kernel = std::make_shared<bench::BenchOptions>();
  const auto add_kernel = [&](const char* name, const char* what, auto run) {
    CLI::App* bench = command->add_subcommand(name, what);
    bench->add_option("--threads", kernel->threads, "threads that compute (default: every core)")
        ->check(CLI::Range(1, 1024));
    bench->add_option("--rounds", kernel->rounds, "times that each case is timed")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    bench->add_option("--csv", kernel->csv, "a file for the figures");
    bench->callback([=] { *exit_code = run(*kernel, stdout); });
    return bench;
  };
  add_kernel("linear", "a 4096 x 4096 linear at several numbers of rows", bench::RunLinearBench)
      ->add_option("--weights", kernel->weights,
                   "int8, q4 (Q4_1), q8_0, q4_0, q4_k or q6_k against the best bf16 path; bf16 "
                   "alone without")
      ->check(CLI::IsMember({"int8", "q8_0", "q4_0", "q4", "q4_k", "q6_k"}));
  add_kernel("lora", "32 tokens over 20 adapters: what LoRA adds, and OpenBLAS on the same work",
             bench::RunLoraBench);
  add_kernel("attention", "decode over long and short sequences, by type of K and V",
             bench::RunAttentionBench);

  auto live = std::make_shared<bench::AdaptersBenchOptions>();
  CLI::App* adapters = command->add_subcommand(
      "adapters",
      "many more adapters than there is room for; publishing under load; merged models");
  adapters->add_option("MODEL", live->model, "a model; without one, synthetic of 135M weights");
  adapters->add_option("--table", live->table, "one of them alone: tiers, active, steps or paths")
      ->check(CLI::IsMember({"tiers", "active", "steps", "paths"}));
  adapters->add_option("--layers", live->layers, "layers of the synthetic model")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  adapters->add_option("--vocab", live->vocab, "its tokens")
      ->check(CLI::Range(4000, 1 << 20))
      ->capture_default_str();
  adapters->add_option("--folder", live->folder,
                       "where the adapters are kept for the next run (default: removed)");
  adapters->add_option("--dtype", live->dtype, "float32 or bfloat16")->capture_default_str();
  adapters->add_option("--threads", live->threads, "threads that compute (default: every core)");
  adapters->add_option("--adapters", live->adapters, "adapters of rank 16, in files")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  adapters->add_option("--contents", live->contents,
                       "distinct files of factors among them; the others share one of these and "
                       "differ in alpha (default: a file each)");
  adapters->add_option("--room", live->room, "adapters that the arena holds")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  adapters->add_option("--clients", live->clients, "requests at a time")
      ->check(CLI::Range(1, 512))
      ->capture_default_str();
  adapters->add_option("--requests", live->requests, "requests in all")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  adapters->add_option("--turns", live->turns, "in which two engines serve them")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  adapters
      ->add_option("--settle", live->settle,
                   "requests of one token before what is timed, so that the tiers hold what "
                   "they would after a while")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  adapters->add_option("--active", live->active, "part of the adapters that is asked for")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  adapters->add_option("--zipf", live->zipf, "exponent of the adapters' popularity")
      ->capture_default_str();
  adapters->add_option("--steps", live->steps, "steps timed beside publishing, and without")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  adapters->callback([=] { *exit_code = bench::RunAdaptersBench(*live, stdout); });

  AddStepBench(command, exit_code);
}

}  // namespace lorica::cli
