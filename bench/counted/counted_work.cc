// counted_work CASE: a fixed amount of hot work on one thread. scripts/instruction_counts.py runs
// it under callgrind, which counts inside CountedWork alone.
#include <cstdio>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/bench_model.h"
#include "lorica/engine/engine.h"
#include "lorica/kernels/linear_fixture.h"
#include "lorica/kernels/open_backend.h"

// A name that callgrind finds.
extern "C" __attribute__((noinline)) void CountedWork(const std::function<void()>& work) { work(); }

namespace lorica::bench {
namespace {

// Rows of x on weights of a type, their slots in turn base and each adapter.
Status CountLinear(DType weights, int32_t rows, const std::vector<int32_t>& ranks) {
  LORICA_ASSIGN_OR_RETURN(const auto backend, kernels::OpenCpuBackend());
  MachineContext context(1);
  kernels::ProblemShape shape;
  shape.k = 1024;
  shape.n = {256};
  shape.weight_dtype = weights;
  shape.ranks = ranks;
  kernels::LinearProblem problem = kernels::RandomProblem(shape, 1);
  problem.activation_type = kernels::ActivationType::kBf16;
  const kernels::PackedProblem packed(problem, *backend, &context);
  std::mt19937 random(2);
  kernels::PackedProblem::Step step;
  step.x = kernels::RandomFloats(rows * shape.k, DType::kF32, 1.0f, &random);
  for (int32_t row = 0; row < rows; ++row) {
    step.slots.push_back({row % static_cast<int32_t>(ranks.size() + 1) - 1});
  }
  step.y.emplace_back(static_cast<size_t>(rows * shape.n[0]));
  CountedWork([&] { packed.Run(&context.pool, &step); });
  return OkStatus();
}

// Steps in which eight sequences decode, six of them on three adapters.
Status CountDecodeStep() {
  constexpr int32_t kSequences = 8;
  constexpr int32_t kSteps = 4;
  MachineContext context(1);
  LORICA_ASSIGN_OR_RETURN(model::ModelConfig config, ModelShape("smollm2"));
  config.layers = 2;
  config.layer.resize(2);
  config.width = 256;
  config.ffn_width = 512;
  config.vocab = 1024;
  config.heads = 4;
  config.kv_heads = 2;
  LORICA_ASSIGN_OR_RETURN(const auto backend, kernels::OpenCpuBackend());
  LORICA_ASSIGN_OR_RETURN(
      const auto model,
      model::Model::Synthetic(config, {.compute_type = model::ComputeType::kBfloat16}, 20,
                              backend.get(), &context));
  engine::EngineOptions options;
  options.max_num_batched_tokens = 64;
  options.max_adapters = 8;
  options.kv_dtype = DType::kBF16;
  options.kv_bytes = int64_t{8} << 20;
  options.adapter_bytes = int64_t{8} << 20;
  LORICA_ASSIGN_OR_RETURN(const auto engine,
                          engine::Engine::Create(model.get(), nullptr, options, &context));
  for (const int32_t rank : {8, 16, 32}) {
    LORICA_ASSIGN_OR_RETURN(auto adapter, RandomAdapter(*model, {.rank = rank}, &context.ledger));
    LORICA_RETURN_IF_ERROR(engine->PublishAdapter(std::to_string(rank), std::move(adapter)));
  }
  int32_t decoding = 0;
  for (int32_t i = 0; i < kSequences; ++i) {
    engine::Request request;
    for (int32_t t = 0; t < 20; ++t) request.prompt.push_back(i * 64 + t);
    const char* const adapters[] = {"", "8", "16", "32"};
    request.adapter = adapters[i % 4];
    request.sampling.temperature = 0.0;
    request.sampling.ignore_eos = true;
    request.sampling.max_tokens = 32;
    LORICA_RETURN_IF_ERROR(engine
                               ->Submit(std::move(request),
                                        [&, seen = false](const engine::Event&) mutable {
                                          decoding += seen ? 0 : 1;
                                          seen = true;
                                        })
                               .status());
  }
  while (decoding < kSequences) engine->Step();
  CountedWork([&] {
    for (int32_t i = 0; i < kSteps; ++i) engine->Step();
  });
  return OkStatus();
}

Status CountCase(std::string_view name) {
  if (name == "bf16_linear_with_adapters") {
    return CountLinear(DType::kBF16, 16, {32, 64, 16, 64, 32});
  }
  if (name == "decode_step") return CountDecodeStep();
  if (name == "int8_linear") return CountLinear(DType::kI8, 8, {});
  if (name == "q4_linear") return CountLinear(DType::kQ4_1, 8, {});
  return InvalidArgument("no case '" + std::string(name) + "'");
}

}  // namespace
}  // namespace lorica::bench

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: counted_work CASE\n");
    return 2;
  }
  const lorica::Status status = lorica::bench::CountCase(argv[1]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "counted_work: %s\n", status.message().c_str());
  return 1;
}
