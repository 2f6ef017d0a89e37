#include "lorica/engine/engine.h"

#include <utility>

#include "lorica/engine/engine_impl.h"

namespace lorica::engine {

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::Create(const model::Model* model,
                                               std::shared_ptr<const formats::Tokenizer> tokenizer,
                                               const EngineOptions& requested,
                                               MachineContext* context) {
  LORICA_ASSIGN_OR_RETURN(EngineOptions options, ResolveOptions(requested, *model));
  LORICA_ASSIGN_OR_RETURN(model::KvPages pages,
                          model::KvPages::Create(KvLayoutOf(model->config(), options.kv_dtype),
                                                 options.kv_bytes, &context->ledger));
  options.kv_bytes = pages.pages() * pages.layout().PageBytes();
  LORICA_ASSIGN_OR_RETURN(std::unique_ptr<lora::AdapterCache> cache,
                          lora::AdapterCache::Create(CacheOptionsOf(options, *model, context)));
  model::Transformer::Options body;
  body.max_rows = options.max_num_batched_tokens;
  body.max_positions = options.max_model_len;
  LORICA_ASSIGN_OR_RETURN(std::unique_ptr<model::Transformer> transformer,
                          model::Transformer::Create(model, body, context));
  return std::unique_ptr<Engine>(new Engine(
      std::make_unique<Impl>(model, std::move(tokenizer), options, context, std::move(pages),
                             std::move(cache), std::move(transformer))));
}

Status Engine::PublishAdapter(const std::string& name,
                              std::shared_ptr<const lora::Adapter> adapter) {
  return PublishAdapter(name, lora::AdapterSource(), std::move(adapter));
}

Status Engine::PublishAdapter(const std::string& name, const lora::AdapterSource& source,
                              std::shared_ptr<const lora::Adapter> adapter) {
  Result<lora::AdapterHold> hold = impl_->tiers.Add(source, std::move(adapter));
  if (!hold.ok()) return hold.status().WithContext("adapter '" + name + "'");
  impl_->tiers.Warm(*hold);
  impl_->registry.Publish(name, *std::move(hold));
  impl_->inbox.Wake();
  return OkStatus();
}

Result<RequestId> Engine::Submit(Request request, EventSink sink) {
  LORICA_RETURN_IF_ERROR(CheckRequest(request, impl_->limits));
  lora::AdapterRef adapter;
  if (request.version != nullptr) {
    adapter = lora::AdapterRef(std::move(request.version));
  } else if (!request.adapter.empty()) {
    LORICA_ASSIGN_OR_RETURN(adapter, impl_->registry.Acquire(request.adapter));
  }
  const double weight = request.adapter_weight;
  StopChecker checker(request.sampling, impl_->eos_ids, impl_->tokenizer);
  auto sequence = std::make_unique<Sequence>(std::move(request), std::move(checker));
  KvIdentityParts parts;
  parts.base_digest = impl_->model->digest();
  parts.kv_dtype = impl_->options.kv_dtype;
  if (!adapter.is_base()) parts.adapter_digest = adapter.version().digest();
  parts.adapter_weight = weight;
  sequence->identity = MakeKvIdentity(parts);
  // All that it can come to hold, so that no step allocates for it.
  const int64_t most_tokens = sequence->prompt_size + int64_t{sequence->sampling.max_tokens};
  sequence->tokens.reserve(static_cast<size_t>(most_tokens));
  sequence->pages.reserve(static_cast<size_t>(PagesFor(most_tokens)));
  sequence->adapter = std::move(adapter);
  sequence->adapter_weight = weight;
  if (impl_->options.prefix_reuse) {
    // Hashed here, so that the engine thread need not.
    sequence->page_keys.emplace(sequence->identity);
    sequence->page_keys->Reserve(PagesFor(most_tokens));
    sequence->page_keys->Extend(sequence->tokens);
  }
  if (impl_->options.speculation == Speculation::kNgram) {
    sequence->drafter.emplace(sequence->prompt_size + int64_t{sequence->sampling.max_tokens});
    sequence->drafter->Extend(sequence->tokens);
  }
  sequence->seed = sequence->sampling.seed.has_value() ? *sequence->sampling.seed
                                                       : impl_->next_seed.fetch_add(1);
  sequence->sink = std::move(sink);
  sequence->submitted = std::chrono::steady_clock::now();
  const std::optional<RequestId> id = impl_->inbox.Post(std::move(sequence));
  if (!id.has_value()) return FailedPrecondition("the engine is stopped and takes no requests");
  return *id;
}

void Engine::Cancel(RequestId id) { impl_->inbox.PostCancel(id); }

// The numbers are those of docs/architecture.md; 1 and 2 were done by Submit.
bool Engine::Step() {
  Impl& engine = *impl_;
  engine.TakeMail();
  engine.TendAdapters();
  const std::span<const ScheduledRows> scheduled = engine.ChooseRows();  // 3
  if (!scheduled.empty()) {
    const TraceScope scope(&engine.context->trace, Zone::kStep);
    engine.BuildStep(scheduled);                                                   // 4
    engine.transformer->Plan(engine.step.batch, engine.cache->table());            // 5, 6
    engine.transformer->Forward(engine.step.batch, &engine.pages);                 // 7
    const auto& rows = engine.reader.Read(engine.step, engine.transformer.get());  // 7, 8
    engine.CountStep(scheduled);
    engine.Answer(scheduled, rows);  // 9
  }
  engine.stalled = scheduled.empty();
  engine.PublishMetrics();
  return !engine.sequences.empty() || !engine.inbox.empty();
}

void Engine::RunUntilIdle() {
  while (Step() && WaitForWork()) {
  }
}

bool Engine::WaitForWork() {
  return impl_->inbox.Wait(!impl_->sequences.empty() && !impl_->stalled);
}

void Engine::Stop() { impl_->inbox.Stop(); }

lora::Registry& Engine::registry() { return impl_->registry; }
const lora::AdapterCache& Engine::adapters() const { return *impl_->cache; }
lora::AdapterTiers& Engine::tiers() { return impl_->tiers; }
const EngineOptions& Engine::options() const { return impl_->options; }
const Metrics& Engine::metrics() const { return impl_->metrics; }

Status Engine::CheckIntegrity() const {
  LORICA_RETURN_IF_ERROR(impl_->scheduler.CheckIntegrity());
  LORICA_RETURN_IF_ERROR(impl_->cache->CheckIntegrity());
  LORICA_RETURN_IF_ERROR(impl_->tiers.CheckIntegrity());
  LORICA_RETURN_IF_ERROR(impl_->registry.CheckIntegrity());
  const auto alive = static_cast<int64_t>(impl_->sequences.size());
  if (alive != impl_->scheduler.running() + impl_->scheduler.waiting()) {
    return Internal(std::to_string(alive) + " sequences are alive and the scheduler knows " +
                    std::to_string(impl_->scheduler.running() + impl_->scheduler.waiting()));
  }
  return OkStatus();
}

}  // namespace lorica::engine
