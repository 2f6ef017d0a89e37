#include "lorica/model/transformer.h"

#include <algorithm>
#include <string>
#include <vector>

#include "lorica/model/activations.h"
#include "lorica/model/attention.h"
#include "lorica/model/linear.h"
#include "lorica/model/mlp.h"
#include "lorica/model/norm_rope.h"
#include "lorica/model/step.h"

namespace lorica::model {
namespace {

bool AllWanted(const Batch& batch) {
  return static_cast<int64_t>(batch.logit_rows.size()) == batch.rows();
}

// The wanted rows as runs of one sequence each, at their positions.
void ListWantedSequences(const Batch& batch, std::vector<kernels::AttentionSequence>* out) {
  out->clear();
  size_t next = 0;
  const std::vector<int32_t>& wanted = batch.logit_rows;
  for (const BatchSequence& sequence : batch.sequences) {
    while (next < wanted.size() && wanted[next] < sequence.row_begin + sequence.rows) {
      kernels::AttentionSequence run;
      run.row_begin = wanted[next];
      run.position_begin = sequence.position_begin + run.row_begin - sequence.row_begin;
      run.pages = sequence.pages;
      while (next < wanted.size() && wanted[next] == run.row_begin + run.rows &&
             wanted[next] < sequence.row_begin + sequence.rows) {
        ++run.rows;
        ++next;
      }
      out->push_back(run);
    }
  }
  LORICA_CHECK(next == wanted.size());
}

// Row i becomes what row `kept[i]` is. In place, since `kept` ascends; each thread has columns of
// its own.
void KeepRows(std::span<const int32_t> kept, Rows* rows, const TeamMember& member) {
  const IndexRange columns = SplitRange(rows->width(), member);
  for (size_t i = 0; i < kept.size(); ++i) {
    std::copy_n(rows->row(kept[i]) + columns.begin, columns.size(),
                rows->row(static_cast<int64_t>(i)) + columns.begin);
  }
}

}  // namespace

struct Transformer::Impl {
  Impl(const Model* m, const Options& o, MachineContext* c, RopeTables r, Activations a)
      : model(m),
        options(o),
        context(c),
        rope(std::move(r)),
        buffers(std::move(a)),
        planner(m->backend().plan_limits(c->pool.threads())),
        wanted_planner(m->backend().plan_limits(c->pool.threads())) {
    stats.resize(kLogitRows);
    vocab_blocks.resize(static_cast<size_t>(kLogitRows * kernels::VocabBlocks(m->config().vocab)));
  }

  void PlanCalls(lora::StepPlanner* with, int32_t layer, lora::CallKind first);
  void RunLayers(const Step& step, const TeamMember& member);
  void RunLastLayer(const Step& step, const TeamMember& member);
  void RunHeadProduct(const Step& step, int64_t rows, const TeamMember& member);
  void RunHead(const Step& step, IndexRange rows, const TeamMember& member);

  const Model* model;
  const Options options;
  MachineContext* context;
  const RopeTables rope;
  Activations buffers;

  lora::SegmentTable segments;
  lora::StepPlanner planner;
  // After the last layer's attention a step goes on with the rows whose logits are wanted; where
  // these are not all, they have segments and plans of their own.
  lora::TokenMap wanted_slots;
  lora::SegmentTable wanted_segments;
  lora::StepPlanner wanted_planner;
  std::vector<kernels::AttentionSequence> wanted_sequences;
  const lora::WeightTable* table = nullptr;
  std::vector<const lora::LoraPlan*> plans;  // [L * kLayerCalls]
  Buffer s_scratch;
  std::vector<kernels::AttentionSequence> sequences;
  int32_t logit_rows = 0;  // of the batch that Forward ran: the first of the residual stream
  std::vector<kernels::RowStats> stats;
  std::vector<kernels::VocabBlockStats> vocab_blocks;
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
  const Activations::Sizes sizes{.rows = options.max_rows,
                                 .logit_rows = kLogitRows,
                                 .positions = options.max_positions,
                                 .threads = context->pool.threads()};
  LORICA_ASSIGN_OR_RETURN(Activations buffers,
                          Activations::Allocate(config, sizes, model->backend(), &context->ledger));
  return std::unique_ptr<Transformer>(new Transformer(
      std::make_unique<Impl>(model, options, context, std::move(rope), std::move(buffers))));
}

// Plans calls `first` to the last of a layer.
void Transformer::Impl::PlanCalls(lora::StepPlanner* with, int32_t layer, lora::CallKind first) {
  for (auto call = static_cast<int32_t>(first); call < kLayerCalls; ++call) {
    plans[static_cast<size_t>(layer * kLayerCalls + call)] =
        with->Plan(SitesOf(model->config(), layer, static_cast<lora::CallKind>(call)));
  }
}

void Transformer::Plan(const Batch& batch, const lora::WeightTable& table) {
  Impl& impl = *impl_;
  const TraceScope scope(&impl.context->trace, Zone::kPlan);
  const ModelConfig& config = impl.model->config();
  impl.table = &table;
  impl.segments.Build(batch.slots);
  impl.planner.Begin(&impl.segments, &table);
  impl.wanted_planner.Begin(&impl.wanted_segments, &table);
  impl.plans.assign(static_cast<size_t>(config.layers) * kLayerCalls, nullptr);
  if (impl.segments.empty()) return;
  for (int32_t layer = 0; layer < config.layers; ++layer) {
    impl.PlanCalls(&impl.planner, layer, lora::CallKind::kQkv);
  }
  if (!AllWanted(batch)) {
    impl.wanted_slots.clear();
    for (const int32_t row : batch.logit_rows) {
      impl.wanted_slots.push_back(batch.slots[static_cast<size_t>(row)]);
    }
    impl.wanted_segments.Build(impl.wanted_slots);
    impl.PlanCalls(&impl.wanted_planner, config.layers - 1, lora::CallKind::kO);
  }
  const int64_t bytes = std::max(impl.planner.max_s_floats(), impl.wanted_planner.max_s_floats()) *
                        static_cast<int64_t>(sizeof(float));
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
  for (int32_t layer = 0; layer + 1 < model->config().layers; ++layer) {
    RunAttentionBlock(step, layer, step.sequences, member);
    RunAttentionOutput(step, layer, member);
    RunMlpBlock(step, layer, member);
  }
  RunLastLayer(step, member);
}

// Rows that nobody reads any more leave as soon as their K and V are written.
void Transformer::Impl::RunLastLayer(const Step& step, const TeamMember& member) {
  const int32_t layer = model->config().layers - 1;
  const std::span<const int32_t> wanted = step.batch->logit_rows;
  Step rest = step;
  if (AllWanted(*step.batch)) {
    RunAttentionBlock(step, layer, step.sequences, member);
  } else {
    RunAttentionBlock(step, layer, wanted_sequences, member);
    KeepRows(wanted, &buffers.attention, member);
    KeepRows(wanted, &buffers.residual, member);
    member.Sync();
    rest.rows = static_cast<int64_t>(wanted.size());
    rest.segments = &wanted_segments;
  }
  if (rest.rows == 0) return;
  RunAttentionOutput(rest, layer, member);
  RunMlpBlock(rest, layer, member);
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
  impl.logit_rows = static_cast<int32_t>(batch.logit_rows.size());
  ListWantedSequences(batch, &impl.wanted_sequences);

  Step step;
  step.model = impl.model;
  step.buffers = &impl.buffers;
  step.rope = &impl.rope;
  step.batch = &batch;
  step.pages = pages;
  step.rows = batch.rows();
  step.sequences = impl.sequences;
  step.segments = &impl.segments;
  step.table = impl.table;
  step.plans = impl.plans;
  step.s_scratch = reinterpret_cast<float*>(impl.s_scratch.data());
  step.trace = &impl.context->trace;
  impl.context->RunTeam([&](const TeamMember& member) { impl.RunLayers(step, member); });
}

void Transformer::Impl::RunHeadProduct(const Step& step, int64_t rows, const TeamMember& member) {
  const TraceScope scope(step.TraceOf(member), Zone::kHead);
  kernels::LinearPart part;
  part.weight = &model->weights().head_weight();
  part.site = model->sites().Head();
  part.y = buffers.logits.data();
  part.y_stride = buffers.logits.width();
  kernels::LinearParams linear;
  linear.x = buffers.head_input.data();
  linear.rows = rows;
  linear.x_stride = buffers.head_input.width();
  linear.k = buffers.head_input.width();
  linear.activation_type = model->activation_type();
  linear.parts = {&part, 1};
  linear.packed_x = buffers.packed_x.data();
  model->backend().LoraLinear(linear, member);
  member.Sync();
}

void Transformer::Impl::RunHead(const Step& step, IndexRange rows, const TeamMember& member) {
  const TraceScope scope(step.TraceOf(member), Zone::kLogits);
  RunNorm(step,
          {.x = buffers.residual.row(rows.begin),
           .y = buffers.head_input.data(),
           .rows = rows.size(),
           .weight = &model->weights().final_norm},
          member);

  RunHeadProduct(step, rows.size(), member);

  const TraceScope stats_scope(step.TraceOf(member), Zone::kLogitStats);
  kernels::LogitStatsParams reduce;
  reduce.logits = buffers.logits.data();
  reduce.rows = rows.size();
  reduce.vocab = model->config().vocab;
  reduce.stride = buffers.logits.width();
  reduce.stats = stats.data();
  reduce.blocks = vocab_blocks.data();
  model->backend().LogitStats(reduce, member);
}

Transformer::Logits Transformer::ComputeLogits(int32_t begin, int32_t count) {
  Impl& impl = *impl_;
  LORICA_CHECK(begin >= 0 && count >= 0 && count <= kLogitRows && begin + count <= impl.logit_rows);
  if (count > 0) {
    Step step;
    step.model = impl.model;
    step.buffers = &impl.buffers;
    step.trace = &impl.context->trace;
    const IndexRange rows{begin, int64_t{begin} + count};
    impl.context->RunTeam([&](const TeamMember& member) { impl.RunHead(step, rows, member); });
  }
  return {.values = impl.buffers.logits.data(),
          .stride = impl.buffers.logits.width(),
          .stats = {impl.stats.data(), static_cast<size_t>(count)}};
}

int32_t Transformer::segments() const {
  return static_cast<int32_t>(impl_->segments.segments().size());
}
int32_t Transformer::distinct_plans() const {
  return impl_->planner.distinct_plans() + impl_->wanted_planner.distinct_plans();
}

}  // namespace lorica::model
