#include "bench/step_bench.h"

#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "bench/floor.h"
#include "bench/step_breakdown.h"
#include "bench/timing.h"
#include "lorica/base/machine_context.h"
#include "lorica/engine/engine.h"
#include "lorica/formats/byte_level.h"
#include "lorica/formats/tokenizer_parts.h"
#include "lorica/kernels/open_backend.h"
#include "lorica/model/model.h"

namespace lorica::bench {
namespace {

constexpr int32_t kRanks[] = {8, 16, 32};
constexpr uint64_t kSeed = 20;

// 16 layers, 2048 wide, ffn 8192, 8 kv heads, a vocabulary of 128k: 1.2B weights.
model::ModelConfig SyntheticConfig() {
  model::ModelConfig config;
  config.family = model::Family::kLlama;
  config.layers = 16;
  config.width = 2048;
  config.ffn_width = 8192;
  config.vocab = 128000;
  config.heads = 32;
  config.kv_heads = 8;
  config.head_dim = 64;
  config.max_positions = 8192;
  config.tied_head = true;
  config.score_scale = 0.125;
  config.rope.theta = 500000.0;
  config.layer.resize(16);
  config.checkpoint_dtype = DType::kBF16;
  return config;
}

// A vocabulary of the 256 bytes: enough to name tokens; the model's is wider.
Result<std::shared_ptr<const formats::Tokenizer>> ByteTokenizer() {
  std::vector<std::string> spellings;
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    spellings.push_back(formats::BytesToByteLevel({&c, 1}));
  }
  formats::BpeSpec spec;
  spec.tokens.assign(spellings.begin(), spellings.end());
  LORICA_ASSIGN_OR_RETURN(formats::Bpe bpe, formats::Bpe::Create(spec));
  LORICA_ASSIGN_OR_RETURN(formats::AddedTokens added,
                          formats::AddedTokens::Create({}, formats::Normalizer::kNone));
  return formats::Tokenizer::Create({.pre_tokenizer = formats::PreTokenizer({}),
                                     .model = std::move(bpe),
                                     .added = std::move(added)});
}

// Random bf16 factors of `rank` on all seven linears of every layer.
Result<std::shared_ptr<const lora::Adapter>> RandomAdapter(const model::Model& model, int32_t rank,
                                                           int32_t index, MemoryLedger* ledger) {
  const lora::SiteSpace sites = model.sites();
  lora::Adapter::Content content;
  int64_t elements = 0;
  for (int32_t i = 0; i < sites.layers * lora::kProjections; ++i) {
    const lora::SiteShape shape = model.Shape({i});
    elements += rank * (shape.k + shape.n);
  }
  LORICA_ASSIGN_OR_RETURN(content.storage,
                          Buffer::Allocate(elements * 2, MemoryTag::kAdapterCold, ledger));
  uint32_t state = static_cast<uint32_t>(index) * 2654435761u + 1u;
  for (uint16_t& bits : content.storage.as<uint16_t>()) {
    state = state * 1664525u + 1013904223u;
    bits = F32ToBf16((static_cast<float>(state >> 8) * 0x1p-24f - 0.5f) * 0.05f);
  }
  const std::byte* next = content.storage.data();
  for (int32_t i = 0; i < sites.layers * lora::kProjections; ++i) {
    lora::SiteFactors factors;
    factors.site = {i};
    factors.rank = rank;
    factors.shape = model.Shape(factors.site);
    factors.a = {next, DType::kBF16};
    next += rank * factors.shape.k * 2;
    factors.b = {next, DType::kBF16};
    next += rank * factors.shape.n * 2;
    content.sites.push_back(factors);
  }
  content.digest = "bench-" + std::to_string(index);
  return std::make_shared<const lora::Adapter>(std::move(content));
}

class World {
 public:
  explicit World(const StepBenchOptions& options)
      : options_(options), context_(ThreadsOf({.threads = options.threads})) {}

  Status Prepare() {
    LORICA_ASSIGN_OR_RETURN(backend_, kernels::OpenCpuBackend());
    model::ModelOptions load;
    LORICA_ASSIGN_OR_RETURN(load.compute_type, model::ParseComputeType(options_.dtype));
    LORICA_ASSIGN_OR_RETURN(load.weight_type, model::ParseWeightType(options_.weights));
    if (options_.model.empty()) {
      LORICA_ASSIGN_OR_RETURN(model_, model::Model::Synthetic(SyntheticConfig(), load, kSeed,
                                                              backend_.get(), &context_));
    } else {
      LORICA_ASSIGN_OR_RETURN(model_,
                              model::Model::Load(options_.model, load, backend_.get(), &context_));
    }
    LORICA_ASSIGN_OR_RETURN(auto tokenizer, ByteTokenizer());
    std::vector<std::shared_ptr<const lora::Adapter>> adapters;
    int64_t factor_bytes = 0;
    for (int32_t i = 0; i < options_.sequences; ++i) {
      LORICA_ASSIGN_OR_RETURN(auto adapter,
                              RandomAdapter(*model_, kRanks[i % 3], i, &context_.ledger));
      factor_bytes += adapter->bytes();
      adapters.push_back(std::move(adapter));
    }
    // No more memory than this run uses, so that the peak says something. Base and adapter turns
    // each keep their prompts' pages.
    engine::EngineOptions engine;
    engine.max_num_seqs = options_.sequences;
    const model::ModelConfig& config = model_->config();
    const int64_t tokens = options_.context + options_.steps + options_.sequences + 32;
    if (load.compute_type == model::ComputeType::kBfloat16) engine.kv_dtype = DType::kBF16;
    engine.kv_bytes = 2 * options_.sequences * tokens / kernels::kPageTokens *
                      engine::KvLayoutOf(config, engine.kv_dtype).PageBytes();
    engine.adapter_bytes = factor_bytes + factor_bytes / 8 + (int64_t{32} << 20);
    LORICA_ASSIGN_OR_RETURN(
        engine_, engine::Engine::Create(model_.get(), std::move(tokenizer), engine, &context_));
    for (int32_t i = 0; i < options_.sequences; ++i) {
      auto& adapter = adapters[static_cast<size_t>(i)];
      adapter_bytes_ += engine_->adapters().TileBytes(*adapter);
      LORICA_RETURN_IF_ERROR(engine_->PublishAdapter(AdapterName(i), std::move(adapter)));
    }
    LORICA_ASSIGN_OR_RETURN(Floor floor, Floor::Create(&context_.pool, backend_->name()));
    floor_ = std::make_unique<Floor>(std::move(floor));
    return OkStatus();
  }

  // Seconds of each step in which every sequence decodes.
  Result<std::vector<double>> Decode(bool adapters, StepBreakdown* breakdown) {
    int32_t first_tokens = 0;
    int32_t ended = 0;
    Status failed;
    for (int32_t i = 0; i < options_.sequences; ++i) {
      engine::Request request;
      for (int32_t t = 0; t < options_.context; ++t) {
        request.prompt.push_back((i * 7919 + t * 104729) % 256);
      }
      if (adapters) request.adapter = AdapterName(i);
      request.sampling.temperature = 0.0;
      request.sampling.ignore_eos = true;
      request.sampling.max_tokens = options_.steps + options_.sequences;
      LORICA_RETURN_IF_ERROR(engine_
                                 ->Submit(std::move(request),
                                          [&, seen = false](engine::Event event) mutable {
                                            if (!seen && !event.tokens.empty()) ++first_tokens;
                                            seen = seen || !event.tokens.empty();
                                            if (event.finish != engine::FinishReason::kNone)
                                              ++ended;
                                            if (!event.status.ok()) failed = event.status;
                                          })
                                 .status());
    }
    std::vector<double> seconds;
    bool more = true;
    while (more && engine_->WaitForWork()) {
      const bool decoding = first_tokens == options_.sequences && ended == 0;
      context_.trace.Reset();
      const double begin = NowSeconds();
      more = engine_->Step();
      if (!decoding || ended != 0) continue;
      seconds.push_back(NowSeconds() - begin);
      breakdown->Add(seconds.back(), context_.trace);
    }
    LORICA_RETURN_IF_ERROR(failed);
    if (seconds.empty()) {
      return InvalidArgument(
          "--steps: expected enough for a step in which every sequence decodes, "
          "found " +
          std::to_string(options_.steps));
    }
    return seconds;
  }

  void Print(std::FILE* out, const std::vector<double>& base, const std::vector<double>& lora,
             const std::vector<double>& ratios) {
    const model::ModelConfig& config = model_->config();
    const auto weights = static_cast<double>(context_.ledger.bytes(MemoryTag::kWeights));
    const double kv = KvBytes();
    const double kv_elements =
        options_.sequences * Position() * 2.0 * config.kv_heads * config.head_dim * config.layers;
    // The embedding is read again as the tied head; an untied one is looked up by row only.
    const double untied = config.tied_head ? 0.0 : static_cast<double>(config.vocab) * config.width;
    // The peak of int8 products is not measured: their floor is that of reading alone.
    const double flops = quantized() ? 0.0
                                     : 2.0 * options_.sequences * (weights / 2.0 - untied) +
                                           2.0 * kv_elements * config.heads / config.kv_heads;
    const Quartiles b = Summarize(base);
    const Quartiles l = Summarize(lora);
    const kernels::ActivationType activations = model_->activation_type();
    const bool dot = floor_->has_dot() && activations == kernels::ActivationType::kBf16;
    const auto row = [&](const char* name, double bytes, double operations, const Quartiles& q) {
      const double floor =
          std::max(bytes / floor_->ReadRate(), operations / floor_->MultiplyRate(activations));
      std::fprintf(out, "%-24s %9.1f %9.2f %9.2f %9.2f %9.2f %7.0f%% %9.1f\n", name, bytes / 1e6,
                   floor * 1e3, q.first * 1e3, q.median * 1e3, q.third * 1e3,
                   100.0 * floor / q.median, options_.sequences / q.median);
    };
    std::fprintf(out, "%d sequences, context %d, %s, weights %s, read %.1f GB/s, %s %.0f GFLOP/s\n",
                 options_.sequences, options_.context, options_.dtype.c_str(),
                 options_.weights.c_str(), floor_->ReadRate() / 1e9,
                 dot ? "bf16 dot" : "f32 multiply-add", floor_->MultiplyRate(activations) / 1e9);
    std::fprintf(out, "%-24s %9s %9s %9s %9s %9s %8s %9s\n", "decode step", "MB", "floor ms",
                 "q1 ms", "median", "q3", "share", "tokens/s");
    row("base alone", weights + kv, flops, b);
    row("an adapter a sequence", weights + kv + static_cast<double>(adapter_bytes_),
        flops + static_cast<double>(adapter_bytes_), l);
    const Quartiles r = Summarize(ratios);
    std::fprintf(out, "tokens per second kept with an adapter a sequence: %.1f%% [%.1f %.1f]\n",
                 100.0 * r.median, 100.0 * r.first, 100.0 * r.third);
    PrintMemory(out);
  }

  void Print(const std::string& title, const StepBreakdown& breakdown, std::FILE* out) const {
    breakdown.Print(title,
                    {.model = model_.get(),
                     .rows = options_.sequences,
                     .kv_bytes = KvBytes(),
                     .has_flops = !quantized()},
                    *floor_, out);
  }

  void Sample() { floor_->Sample(); }
  void PrintHead(std::FILE* out) { PrintMachine(context_.pool.threads(), backend_->name(), out); }

 private:
  bool quantized() const { return options_.weights != "auto" && options_.weights != "bf16"; }
  // Of the middle step.
  double Position() const { return options_.context + options_.steps / 2.0; }
  double KvBytes() const {
    const kernels::KvLayout layout =
        engine::KvLayoutOf(model_->config(), engine_->options().kv_dtype);
    return options_.sequences * Position() * static_cast<double>(layout.PageBytes()) /
           kernels::kPageTokens;
  }
  static std::string AdapterName(int32_t index) { return "tenant-" + std::to_string(index); }

  void PrintMemory(std::FILE* out) const {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    const double peak = static_cast<double>(usage.ru_maxrss) * 1024.0;
    double accounted = 0.0;
    for (int tag = 0; tag < kMemoryTags; ++tag) {
      accounted += static_cast<double>(context_.ledger.bytes(static_cast<MemoryTag>(tag)));
    }
    std::fprintf(out,
                 "peak memory %.0f MB, %.2f x what is accounted by purpose (%.0f MB):", peak / 1e6,
                 peak / accounted, accounted / 1e6);
    for (int tag = 0; tag < kMemoryTags; ++tag) {
      const auto purpose = static_cast<MemoryTag>(tag);
      std::fprintf(out, " %s %.0f", std::string(MemoryTagName(purpose)).c_str(),
                   static_cast<double>(context_.ledger.bytes(purpose)) / 1e6);
    }
    std::fprintf(out, "\n");
  }

  const StepBenchOptions options_;
  MachineContext context_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<Floor> floor_;
  int64_t adapter_bytes_ = 0;
};

Status Run(const StepBenchOptions& options, std::FILE* out) {
  World world(options);
  LORICA_RETURN_IF_ERROR(world.Prepare());
  world.PrintHead(out);
  std::vector<double> base;
  std::vector<double> lora;
  std::vector<double> ratios;
  StepBreakdown base_parts;
  StepBreakdown lora_parts;
  for (int turn = 0; turn <= options.turns; ++turn) {
    world.Sample();
    StepBreakdown warming;
    LORICA_ASSIGN_OR_RETURN(const std::vector<double> b,
                            world.Decode(false, turn == 0 ? &warming : &base_parts));
    world.Sample();
    LORICA_ASSIGN_OR_RETURN(const std::vector<double> l,
                            world.Decode(true, turn == 0 ? &warming : &lora_parts));
    if (turn == 0) continue;  // warms pages and caches
    base.insert(base.end(), b.begin(), b.end());
    lora.insert(lora.end(), l.begin(), l.end());
    ratios.push_back(Summarize(b).median / Summarize(l).median);
  }
  world.Print(out, base, lora, ratios);
  if (options.breakdown) {
    world.Print("base alone", base_parts, out);
    world.Print("an adapter a sequence", lora_parts, out);
  }
  return OkStatus();
}

}  // namespace

int RunStepBench(const StepBenchOptions& options, std::FILE* out) {
  const Status status = Run(options, out);
  if (status.ok()) return 0;
  std::fprintf(stderr, "lorica: %s\n", status.message().c_str());
  return 1;
}

}  // namespace lorica::bench
