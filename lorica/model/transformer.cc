#include "lorica/model/transformer.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "lorica/model/activations.h"
#include "lorica/model/attention.h"
#include "lorica/model/linear.h"
#include "lorica/model/mlp.h"
#include "lorica/model/norm_rope.h"
#include "lorica/model/step.h"

namespace lorica::model {

struct Transformer::Impl {
  Impl(const Model* m, const Options& o, MachineContext* c, RopeTables r, Activations a)
      : model(m),
        options(o),
        context(c),
        rope(std::move(r)),
        buffers(std::move(a)),
        planner(m->backend().plan_limits(c->pool.threads())) {
    stats.resize(kLogitRows);
  }

  void RunLayers(const Step& step, const TeamMember& member);
  void RunHead(const Step& step, std::span<const int32_t> rows, const TeamMember& member);

  const Model* model;
  const Options options;
  MachineContext* context;
  const RopeTables rope;
  Activations buffers;

  lora::SegmentTable segments;
  lora::StepPlanner planner;
  const lora::WeightTable* table = nullptr;
  std::vector<const lora::LoraPlan*> plans;  // [L * kLayerCalls]
  Buffer s_scratch;
  std::vector<kernels::AttentionSequence> sequences;
  std::vector<int32_t> logit_rows;  // of the batch that Forward ran
  std::vector<kernels::RowStats> stats;
};

Transformer::Transformer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Transformer::~Transformer() = default;

Result<std::unique_ptr<Transformer>> Transformer::Create(const Model* model, const Options& options,
                                                         MachineContext* context) {
  const ModelConfig& config = model->config();
  LORICA_CHECK(options.max_rows > 0);
  if (options.max_positions < 1 || options.max_positions > config.max_positions) {
    return InvalidArgument("--max-model-len: expected 1 to the model's " +
                           std::to_string(config.max_positions) + " positions, found " +
                           std::to_string(options.max_positions));
  }
  LORICA_ASSIGN_OR_RETURN(RopeTables rope, RopeTables::Create(config.rope, config.head_dim,
                                                              options.max_positions, context));
  const Activations::Sizes sizes{
      .rows = options.max_rows, .logit_rows = kLogitRows, .threads = context->pool.threads()};
  LORICA_ASSIGN_OR_RETURN(Activations buffers,
                          Activations::Allocate(config, sizes, model->backend(), &context->ledger));
  return std::unique_ptr<Transformer>(new Transformer(
      std::make_unique<Impl>(model, options, context, std::move(rope), std::move(buffers))));
}

void Transformer::Plan(const Batch& batch, const lora::WeightTable& table) {
  Impl& impl = *impl_;
  const TraceScope scope(&impl.context->trace, Zone::kPlan);
  const ModelConfig& config = impl.model->config();
  impl.table = &table;
  impl.segments.Build(batch.slots);
  impl.planner.Begin(&impl.segments, &table);
  impl.plans.assign(static_cast<size_t>(config.layers) * kLayerCalls, nullptr);
  if (impl.segments.empty()) return;
  for (int32_t layer = 0; layer < config.layers; ++layer) {
    for (int32_t call = 0; call < kLayerCalls; ++call) {
      impl.plans[static_cast<size_t>(layer * kLayerCalls + call)] =
          impl.planner.Plan(SitesOf(config, layer, static_cast<lora::CallKind>(call)));
    }
  }
  const int64_t bytes = impl.planner.max_s_floats() * static_cast<int64_t>(sizeof(float));
  if (bytes > impl.s_scratch.bytes()) {
    // Bounded by rows and resident ranks; a machine without these few bytes cannot go on.
    impl.s_scratch = Buffer();
    auto grown = Buffer::Allocate(bytes, MemoryTag::kActivations, &impl.context->ledger);
    LORICA_CHECK(grown.ok());
    impl.s_scratch = std::move(grown).value();
  }
}

void Transformer::Impl::RunLayers(const Step& step, const TeamMember& member) {
  {
    const TraceScope scope(step.TraceOf(member), Zone::kEmbed);
    kernels::EmbedParams embed;
    embed.table = &model->weights().embedding;
    embed.tokens = step.batch->tokens;
    embed.y = buffers.residual.data();
    embed.y_stride = buffers.residual.width();
    model->backend().Embed(embed, member);
    member.Sync();
  }
  for (int32_t layer = 0; layer < model->config().layers; ++layer) {
    RunAttentionBlock(step, layer, member);
    RunMlpBlock(step, layer, member);
  }
}

void Transformer::Forward(const Batch& batch, KvPages* pages) {
  Impl& impl = *impl_;
  LORICA_CHECK(batch.rows() <= impl.options.max_rows);
  LORICA_CHECK(impl.table != nullptr);
  impl.sequences.clear();
  for (const BatchSequence& sequence : batch.sequences) {
    LORICA_CHECK(sequence.position_begin + sequence.rows <= impl.options.max_positions);
    impl.sequences.push_back({.row_begin = sequence.row_begin,
                              .rows = sequence.rows,
                              .position_begin = sequence.position_begin,
                              .pages = sequence.pages});
  }
  impl.logit_rows = batch.logit_rows;

  Step step;
  step.model = impl.model;
  step.buffers = &impl.buffers;
  step.rope = &impl.rope;
  step.batch = &batch;
  step.pages = pages;
  step.sequences = impl.sequences;
  step.segments = &impl.segments;
  step.table = impl.table;
  step.plans = impl.plans;
  step.s_scratch = reinterpret_cast<float*>(impl.s_scratch.data());
  step.trace = &impl.context->trace;
  impl.context->pool.Run([&](const TeamMember& member) { impl.RunLayers(step, member); });
}

void Transformer::Impl::RunHead(const Step& step, std::span<const int32_t> rows,
                                const TeamMember& member) {
  const TraceScope scope(step.TraceOf(member), Zone::kLogits);
  const auto count = static_cast<int64_t>(rows.size());
  const IndexRange mine = SplitRange(count, member);
  for (int64_t r = mine.begin; r < mine.end; ++r) {
    std::memcpy(buffers.head_input.row(r), buffers.residual.row(rows[static_cast<size_t>(r)]),
                static_cast<size_t>(buffers.head_input.width()) * sizeof(float));
  }
  member.Sync();
  RunNorm(step,
          {.x = buffers.head_input.data(),
           .y = buffers.head_input.data(),
           .rows = count,
           .weight = &model->weights().final_norm},
          member);

  kernels::LinearPart part;
  part.weight = &model->weights().head_weight();
  part.site = model->sites().Head();
  part.y = buffers.logits.data();
  part.y_stride = buffers.logits.width();
  kernels::LinearParams linear;
  linear.x = buffers.head_input.data();
  linear.rows = count;
  linear.x_stride = buffers.head_input.width();
  linear.k = buffers.head_input.width();
  linear.activation_type = model->activation_type();
  linear.parts = {&part, 1};
  linear.packed_x = buffers.packed_x.data();
  model->backend().LoraLinear(linear, member);
  member.Sync();

  kernels::LogitStatsParams reduce;
  reduce.logits = buffers.logits.data();
  reduce.rows = count;
  reduce.vocab = model->config().vocab;
  reduce.stride = buffers.logits.width();
  reduce.stats = stats.data();
  model->backend().LogitStats(reduce, member);
}

Transformer::Logits Transformer::ComputeLogits(int32_t begin, int32_t count) {
  Impl& impl = *impl_;
  LORICA_CHECK(begin >= 0 && count >= 0 && count <= kLogitRows &&
               begin + count <= static_cast<int32_t>(impl.logit_rows.size()));
  if (count > 0) {
    Step step;
    step.model = impl.model;
    step.buffers = &impl.buffers;
    step.trace = &impl.context->trace;
    const std::span<const int32_t> rows(impl.logit_rows.data() + begin, static_cast<size_t>(count));
    impl.context->pool.Run([&](const TeamMember& member) { impl.RunHead(step, rows, member); });
  }
  return {.values = impl.buffers.logits.data(),
          .stride = impl.buffers.logits.width(),
          .stats = {impl.stats.data(), static_cast<size_t>(count)}};
}

int32_t Transformer::segments() const {
  return static_cast<int32_t>(impl_->segments.segments().size());
}
int32_t Transformer::distinct_plans() const {
  return impl_->segments.empty() ? 0 : impl_->planner.distinct_plans();
}

}  // namespace lorica::model
