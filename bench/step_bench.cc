#include "bench/step_bench.h"

#include <algorithm>
#include <vector>

#include "bench/report.h"
#include "bench/scaling_bench.h"
#include "bench/step_breakdown.h"
#include "bench/step_world.h"

namespace lorica::bench {
namespace {

void PrintTitle(const char* what, std::FILE* out) {
  std::fprintf(out, "%-24s %9s %9s %9s %9s %9s %8s %9s\n", what, "MB", "floor ms", "q1 ms",
               "median", "q3", "share", "tokens/s");
}

struct Row {
  const char* name;
  StepWorld::Work work;
  Quartiles seconds;
  int32_t tokens;  // of a step
};

void PrintRow(const StepWorld& world, const Row& row, std::FILE* out) {
  const double floor = world.FloorSeconds(row.work);
  const Quartiles& q = row.seconds;
  std::fprintf(out, "%-24s %9.1f %9.2f %9.2f %9.2f %9.2f %7.0f%% %9.1f\n", row.name,
               row.work.bytes / 1e6, floor * 1e3, q.first * 1e3, q.median * 1e3, q.third * 1e3,
               100.0 * floor / q.median, row.tokens / q.median);
}

void PrintKept(const std::vector<double>& ratios, std::FILE* out) {
  const Quartiles r = Summarize(ratios);
  std::fprintf(out, "tokens per second kept with an adapter a sequence: %.1f%% [%.1f %.1f]\n",
               100.0 * r.median, 100.0 * r.first, 100.0 * r.third);
}

Figure Kept(double x, const std::vector<double>& ratios) {
  const Quartiles r = Summarize(ratios);
  return {"an adapter a sequence",
          x,
          "kept",
          "%",
          {100.0 * r.best, 100.0 * r.first, 100.0 * r.median, 100.0 * r.third}};
}

Status RunDecode(const StepBenchOptions& options, int32_t sequences, StepWorld* world,
                 Report* report, std::FILE* out) {
  StepWorld::Company company;
  company.sequences = sequences;
  company.context = options.context;
  company.steps = options.steps;
  StepWorld::Company mixed = company;
  mixed.adapters = sequences;
  world->floor().Clear();
  std::vector<double> base;
  std::vector<double> lora;
  std::vector<double> ratios;
  StepBreakdown base_parts;
  StepBreakdown lora_parts;
  for (int turn = 0; turn <= options.turns; ++turn) {
    const bool warming = turn == 0;
    world->floor().Sample();
    LORICA_ASSIGN_OR_RETURN(const std::vector<double> b,
                            world->Decode(company, warming ? nullptr : &base_parts));
    world->floor().Sample();
    LORICA_ASSIGN_OR_RETURN(const std::vector<double> l,
                            world->Decode(mixed, warming ? nullptr : &lora_parts));
    if (warming) continue;
    base.insert(base.end(), b.begin(), b.end());
    lora.insert(lora.end(), l.begin(), l.end());
    ratios.push_back(Summarize(b).median / Summarize(l).median);
  }
  std::fprintf(out, "%d sequences, context %d, %s, weights %s, %s\n", sequences, options.context,
               options.model.dtype.c_str(), options.model.weights.c_str(), world->Rates().c_str());
  PrintTitle("decode step", out);
  const Row rows[] = {
      {"base alone", world->DecodeWork(company), Summarize(base), sequences},
      {"an adapter a sequence", world->DecodeWork(mixed), Summarize(lora), sequences}};
  for (const Row& row : rows) {
    PrintRow(*world, row, out);
    report->AddTimes(row.name, sequences, world->FloorSeconds(row.work), row.seconds);
  }
  PrintKept(ratios, out);
  report->Add(Kept(sequences, ratios));
  if (!options.breakdown) return OkStatus();
  const StepBreakdown::Work work = {.model = &world->model(),
                                    .rows = sequences,
                                    .kv_bytes = world->KvBytes(company),
                                    .has_flops = world->has_flops()};
  base_parts.Print("base alone", work, world->floor(), out);
  lora_parts.Print("an adapter a sequence", work, world->floor(), out);
  return OkStatus();
}

Status RunPrefill(const StepBenchOptions& options, StepWorld* world, Report* report,
                  std::FILE* out) {
  using On = StepWorld::PrefillOn;
  std::vector<double> base;
  std::vector<double> lora;
  for (int turn = 0; turn <= options.turns; ++turn) {
    world->floor().Sample();
    LORICA_ASSIGN_OR_RETURN(const double b, world->Prefill(options.prefill, On::kBase));
    world->floor().Sample();
    LORICA_ASSIGN_OR_RETURN(const double l, world->Prefill(options.prefill, On::kAdapter));
    if (turn == 0) continue;  // warms pages and caches
    base.push_back(b);
    lora.push_back(l);
  }
  std::fprintf(out, "a prompt of %d tokens until its first token, %s, weights %s, %s\n",
               options.prefill, options.model.dtype.c_str(), options.model.weights.c_str(),
               world->Rates().c_str());
  PrintTitle("prefill", out);
  const Row rows[] = {{"base alone", world->PrefillWork(options.prefill, On::kBase),
                       Summarize(base), options.prefill},
                      {"an adapter of rank 16", world->PrefillWork(options.prefill, On::kAdapter),
                       Summarize(lora), options.prefill}};
  for (const Row& row : rows) {
    PrintRow(*world, row, out);
    report->AddTimes(row.name, options.prefill, world->FloorSeconds(row.work), row.seconds);
  }
  return OkStatus();
}

StepWorld::Options WorldOptions(const StepBenchOptions& options) {
  StepWorld::Options world;
  world.threads = options.threads;
  if (options.prefill > 0) {
    world.positions = options.prefill + 1;
    world.adapters.push_back({.rank = 16});
    return world;
  }
  world.sequences = *std::max_element(options.sequences.begin(), options.sequences.end());
  world.positions = options.context + options.steps + 1;
  for (int32_t i = 0; i < world.sequences; ++i) {
    const int32_t rank = options.ranks[static_cast<size_t>(i) % options.ranks.size()];
    world.adapters.push_back({.rank = rank, .seed = static_cast<uint32_t>(i)});
  }
  return world;
}

Status Run(const StepBenchOptions& options, std::FILE* out) {
  LORICA_ASSIGN_OR_RETURN(const BenchModel model, OpenBenchModel(options.model));
  if (!options.scaling.empty()) return RunScaling(options, model, out);
  LORICA_ASSIGN_OR_RETURN(const auto world, StepWorld::Make(&model, WorldOptions(options)));
  world->PrintHead(out);
  std::fflush(out);
  Report report(world->Machine(), options.prefill > 0 ? "prefill" : "step");
  if (options.prefill > 0) {
    LORICA_RETURN_IF_ERROR(RunPrefill(options, world.get(), &report, out));
    return report.Write(options.csv);
  }
  for (const int32_t sequences : options.sequences) {
    LORICA_RETURN_IF_ERROR(RunDecode(options, sequences, world.get(), &report, out));
    std::fflush(out);
  }
  world->PrintMemory(out);
  return report.Write(options.csv);
}

}  // namespace

int RunStepBench(const StepBenchOptions& options, std::FILE* out) {
  const Status status = Run(options, out);
  if (status.ok()) return 0;
  std::fprintf(stderr, "lorica: %s\n", status.message().c_str());
  return 1;
}

}  // namespace lorica::bench
