// For tests: a tiny model with random weights, random adapters, and an engine that is checked after
// every step. Not part of the library.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdio>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "lorica/engine/engine.h"
#include "lorica/engine/kv_allocator.h"
#include "lorica/kernels/open_backend.h"

namespace lorica::engine::testing {

inline model::ModelConfig TinyConfig() {
  model::ModelConfig config;
  config.layers = 2;
  config.width = 64;
  config.ffn_width = 96;
  config.vocab = 320;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 16;
  config.max_positions = 1024;
  config.tied_head = true;
  config.score_scale = 0.25;
  config.layer.resize(2);
  return config;
}

// Deterministic; not in [0, 1) but in [-1, 1).
class Noise {
 public:
  explicit Noise(uint64_t seed) : state_(seed) {}
  float Next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(static_cast<int32_t>(state_ >> 32)) * 0x1.0p-31f;
  }
  int32_t Below(int32_t n) {
    Next();
    return static_cast<int32_t>((state_ >> 33) % static_cast<uint64_t>(n));
  }

 private:
  uint64_t state_;
};

struct AdapterSpec {
  uint64_t seed = 1;
  int32_t rank = 8;
  std::vector<lora::Projection> projections;
  float magnitude = 0.3f;  // of the factors' values
  double scale = 2.0;
};

inline std::shared_ptr<const lora::Adapter> MakeAdapter(const model::Model& model,
                                                        const AdapterSpec& spec) {
  lora::Adapter::Content content;
  char digest[65];
  std::snprintf(digest, sizeof(digest), "%064llx", static_cast<unsigned long long>(spec.seed));
  content.digest = digest;
  int64_t floats = 0;
  for (int32_t layer = 0; layer < model.config().layers; ++layer) {
    for (lora::Projection projection : spec.projections) {
      lora::SiteFactors factors;
      factors.site = model.sites().Linear(layer, projection);
      factors.rank = spec.rank;
      factors.shape = model.Shape(factors.site);
      factors.scale = spec.scale;
      factors.a.dtype = factors.b.dtype = DType::kF32;
      floats += spec.rank * (factors.shape.k + factors.shape.n);
      content.sites.push_back(factors);
    }
  }
  content.storage =
      std::move(Buffer::Allocate(floats * 4, MemoryTag::kAdapterCold, nullptr)).value();
  Noise noise(spec.seed);
  float* next = content.storage.as<float>().data();
  for (lora::SiteFactors& factors : content.sites) {
    for (auto [factor, count] : {std::pair(&factors.a, spec.rank * factors.shape.k),
                                 std::pair(&factors.b, spec.rank * factors.shape.n)}) {
      factor->data = reinterpret_cast<const std::byte*>(next);
      for (int64_t i = 0; i < count; ++i) *next++ = noise.Next() * spec.magnitude;
    }
  }
  return std::make_shared<const lora::Adapter>(std::move(content));
}

// What came back for one request, all events joined.
struct Answer {
  std::vector<TokenInfo> prompt;
  std::vector<TokenInfo> tokens;
  std::string text;
  FinishReason finish = FinishReason::kNone;
  std::string stop_reason;
  Status status;

  void Add(Event event) {
    EXPECT_EQ(finish, FinishReason::kNone) << "an event after the last";
    for (TokenInfo& info : event.prompt_tokens) prompt.push_back(std::move(info));
    for (TokenInfo& info : event.tokens) tokens.push_back(std::move(info));
    text += event.text;
    finish = event.finish;
    stop_reason = event.stop_reason;
    status = event.status;
  }
  std::vector<int32_t> ids() const {
    std::vector<int32_t> ids;
    for (const TokenInfo& info : tokens) ids.push_back(info.token);
    return ids;
  }
};

// Tokens, and every bit of every log-probability.
inline std::string Bits(const std::vector<TokenInfo>& infos) {
  std::ostringstream bits;
  for (const TokenInfo& info : infos) {
    bits << info.token << ':';
    if (info.logprob.has_value()) bits << std::bit_cast<uint32_t>(*info.logprob);
    for (const TokenLogprob& top : info.top) {
      bits << ',' << top.token << '=' << std::bit_cast<uint32_t>(top.logprob);
    }
    bits << ' ';
  }
  return bits.str();
}
inline std::string Bits(const Answer& answer) {
  return Bits(answer.prompt) + "| " + Bits(answer.tokens) + "| " + answer.text + "| " +
         std::string(FinishReasonName(answer.finish)) + " " + answer.stop_reason + " " +
         answer.status.ToString();
}

// A base model with its backend. Packed on one thread; engines bring their own.
struct TestModel {
  explicit TestModel(model::ComputeType type = model::ComputeType::kFloat32,
                     std::string_view isa = "",
                     model::WeightType weights = model::WeightType::kAuto)
      : context(1) {
    auto opened = isa.empty() ? kernels::OpenCpuBackend() : kernels::OpenCpuBackend(isa);
    backend = std::move(opened).value();
    const model::ModelOptions options{.compute_type = type, .weight_type = weights};
    model = model::Model::Synthetic(TinyConfig(), options, 42, backend.get(), &context).value();
  }

  MachineContext context;
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<model::Model> model;
};

struct TestOptions {
  int threads = 1;
  int32_t max_num_seqs = 8;
  int32_t max_num_batched_tokens = 64;
  int32_t pages = 512;
  DType kv_dtype = DType::kF32;
  int64_t adapter_bytes = 8 << 20;
  int64_t adapter_quantum = 256;
  bool prefix_reuse = true;
  Speculation speculation = Speculation::kOff;
  bool standard_adapters = true;  // "a" to "d"
  std::shared_ptr<const formats::Tokenizer> tokenizer;
};

// An engine with adapters "a", "b", "c", "d" of different ranks and modules.
class TestEngine {
 public:
  TestEngine(const TestModel& base, const TestOptions& options) : context_(options.threads) {
    EngineOptions engine_options;
    engine_options.max_num_seqs = options.max_num_seqs;
    engine_options.max_num_batched_tokens = options.max_num_batched_tokens;
    engine_options.kv_dtype = options.kv_dtype;
    engine_options.kv_bytes =
        options.pages * KvLayoutOf(base.model->config(), options.kv_dtype).PageBytes();
    engine_options.adapter_bytes = options.adapter_bytes;
    engine_options.adapter_quantum = options.adapter_quantum;
    engine_options.prefix_reuse = options.prefix_reuse;
    engine_options.speculation = options.speculation;
    engine_options.max_adapters = 16;
    auto created = Engine::Create(base.model.get(), options.tokenizer, engine_options, &context_);
    EXPECT_TRUE(created.ok()) << created.status().ToString();
    engine_ = std::move(created).value();
    if (!options.standard_adapters) return;
    using lora::Projection;
    const std::vector<Projection> all = {Projection::kQ,   Projection::kK,    Projection::kV,
                                         Projection::kO,   Projection::kGate, Projection::kUp,
                                         Projection::kDown};
    Publish("a", MakeAdapter(*base.model, {11, 4, {Projection::kQ, Projection::kV}}));
    Publish("b", MakeAdapter(*base.model, {12, 8, all}));
    Publish("c", MakeAdapter(*base.model, {13, 6, {Projection::kQ, Projection::kV}}));
    Publish("d", MakeAdapter(*base.model,
                             {14, 16, {Projection::kGate, Projection::kUp, Projection::kDown}}));
  }

  void Publish(const std::string& name, std::shared_ptr<const lora::Adapter> adapter) {
    const Status status = engine_->PublishAdapter(name, std::move(adapter));
    EXPECT_TRUE(status.ok()) << status.ToString();
  }

  // Queues a request; its answer grows under the returned index.
  size_t Submit(Request request) {
    const size_t index = answers_.size();
    answers_.push_back(std::make_unique<Answer>());
    Answer* answer = answers_.back().get();
    const auto id = engine_->Submit(std::move(request),
                                    [answer](Event event) { answer->Add(std::move(event)); });
    EXPECT_TRUE(id.ok()) << id.status().ToString();
    ids_.push_back(id.ok() ? *id : RequestId{});
    return index;
  }

  bool Step() {
    const bool more = engine_->Step();
    const Status integrity = engine_->CheckIntegrity();
    EXPECT_TRUE(integrity.ok()) << integrity.ToString();
    return more;
  }
  void RunUntilIdle() {
    int64_t steps = 0;
    while (Step()) {
      ASSERT_LT(++steps, 1000000);
      ASSERT_FALSE(::testing::Test::HasFailure());
    }
  }
  // All of `requests` at once; their answers in that order.
  std::vector<Answer> Run(const std::vector<Request>& requests) {
    std::vector<size_t> indices;
    for (const Request& request : requests) indices.push_back(Submit(request));
    RunUntilIdle();
    std::vector<Answer> answers;
    for (size_t index : indices) answers.push_back(*answers_[index]);
    return answers;
  }

  Engine& engine() { return *engine_; }
  const Answer& answer(size_t index) const { return *answers_[index]; }
  RequestId id(size_t index) const { return ids_[index]; }
  MachineContext& context() { return context_; }
  MetricValues metrics() const { return engine_->metrics().Read(); }

 private:
  MachineContext context_;
  std::unique_ptr<Engine> engine_;
  std::vector<std::unique_ptr<Answer>> answers_;
  std::vector<RequestId> ids_;
};

inline std::vector<int32_t> RandomPrompt(uint64_t seed, int32_t size) {
  Noise noise(seed * 7919 + 1);
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < size; ++i) prompt.push_back(noise.Below(TinyConfig().vocab));
  return prompt;
}

}  // namespace lorica::engine::testing
