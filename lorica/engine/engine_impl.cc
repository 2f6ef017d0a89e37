#include "lorica/engine/engine_impl.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <utility>

namespace lorica::engine {
namespace {

std::vector<int32_t> EosIds(const model::Model& model, const formats::Tokenizer* tokenizer) {
  std::vector<int32_t> ids = model.config().eos_token_ids;
  if (tokenizer != nullptr) {
    ids.insert(ids.end(), tokenizer->eos_ids().begin(), tokenizer->eos_ids().end());
  }
  std::erase_if(ids, [&](int32_t id) { return id < 0 || id >= model.config().vocab; });
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

lora::AdapterTiers::Options TierOptions(const EngineOptions& options, const model::Model& model,
                                        MachineContext* context, lora::AdapterCache* cache,
                                        Inbox* inbox) {
  lora::AdapterTiers::Options tiers;
  tiers.cache = cache;
  tiers.base = &model;
  tiers.load.ledger = &context->ledger;
  tiers.cold_bytes = options.cold_bytes;
  tiers.quantum = options.adapter_quantum;
  tiers.changed = [inbox] { inbox->Wake(); };
  return tiers;
}

uint64_t RandomSeed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

Status NotFinite(const LogitUse& use) {
  const Sequence& sequence = *use.sequence;
  const std::string whose = sequence.adapter.is_base()
                                ? "the base model"
                                : "adapter '" + sequence.adapter.version().name() + "'";
  return Internal("the logits of " + whose + " after position " + std::to_string(use.position) +
                  " are not finite: its weights overflow on this prompt");
}

}  // namespace

Engine::Impl::Impl(const model::Model* base_model, std::shared_ptr<const formats::Tokenizer> tokens,
                   const EngineOptions& resolved, MachineContext* machine, model::KvPages kv_pages,
                   std::unique_ptr<lora::AdapterCache> adapters,
                   std::unique_ptr<model::Transformer> body)
    : model(base_model),
      tokenizer(std::move(tokens)),
      options(resolved),
      context(machine),
      eos_ids(EosIds(*base_model, tokenizer.get())),
      cache(std::move(adapters)),
      tiers(TierOptions(resolved, *base_model, machine, cache.get(), &inbox)),
      next_seed(RandomSeed()),
      pages(std::move(kv_pages)),
      transformer(std::move(body)),
      allocator(pages.pages()),
      scheduler(
          {resolved.max_num_seqs, resolved.max_num_batched_tokens}, &allocator,
          [this](Sequence& sequence) { return FindSlot(sequence); },
          [this](Sequence& sequence) { ReleaseSlot(sequence); }),
      reader(base_model->config().vocab, machine) {
  limits.vocab = model->config().vocab;
  limits.max_model_len = options.max_model_len;
  limits.kv_pages = pages.pages();
  limits.has_tokenizer = tokenizer != nullptr;
  values.kv_pages = pages.pages();
  loader = std::make_unique<lora::FetchThread>(&tiers);
}

Engine::Impl::~Impl() {
  loader.reset();
  for (auto& [id, sequence] : sequences) LeaveAdapter(sequence.get());
  // What has not arrived yet holds adapters too, and the tiers outlive no holder.
  inbox.Take();
}

std::optional<lora::SlotId> Engine::Impl::FindSlot(Sequence& sequence) {
  if (sequence.adapter.is_base()) return lora::kBaseModel;
  const std::optional<lora::SlotId> slot =
      tiers.Acquire(sequence.adapter.version().adapter(), sequence.adapter_weight);
  if (slot.has_value()) sequence.adapter_use = AdapterUse::kHolds;
  return slot;
}

void Engine::Impl::ReleaseSlot(Sequence& sequence) {
  if (sequence.adapter_use != AdapterUse::kHolds) return;
  tiers.StepBack(sequence.adapter.version().adapter(), sequence.adapter_weight);
  sequence.adapter_use = AdapterUse::kWaits;
}

void Engine::Impl::LeaveAdapter(Sequence* sequence) {
  switch (std::exchange(sequence->adapter_use, AdapterUse::kNone)) {
    case AdapterUse::kNone:
      return;
    case AdapterUse::kWaits:
      return tiers.LeaveWaiting(sequence->adapter.version().adapter());
    case AdapterUse::kHolds:
      return tiers.LeaveRunning(sequence->adapter.version().adapter(), sequence->adapter_weight);
  }
}

void Engine::Impl::TendAdapters() {
  tiers.CompactIfAsked();
  if (const lora::TieredAdapter* leaving = tiers.ChooseLeaving()) scheduler.PreemptAll(leaving);
  const uint64_t failures = tiers.failures();
  if (failures == seen_failures) return;
  seen_failures = failures;
  std::vector<std::pair<Sequence*, Status>> failed;
  for (const auto& [id, sequence] : sequences) {
    if (sequence->adapter_use != AdapterUse::kWaits) continue;
    const lora::Version& version = sequence->adapter.version();
    const Status reason = tiers.Failure(version.adapter());
    if (reason.ok()) continue;
    failed.emplace_back(sequence.get(), reason.WithContext("adapter '" + version.name() + "'"));
  }
  for (auto& [sequence, reason] : failed) {
    Event event;
    event.id = sequence->id;
    event.finish = FinishReason::kError;
    event.status = std::move(reason);
    Send(sequence, std::move(event));
  }
}

void Engine::Impl::TakeMail() {
  Inbox::Mail mail = inbox.Take();
  values.submitted += static_cast<int64_t>(mail.arrivals.size());
  for (std::unique_ptr<Sequence>& arrival : mail.arrivals) {
    if (!arrival->adapter.is_base()) {
      // Fetched from now on, though its turn may be far off.
      tiers.Arrive(arrival->adapter.version().adapter());
      arrival->adapter_use = AdapterUse::kWaits;
    }
    scheduler.Add(arrival.get());
    sequences.emplace(arrival->id.value, std::move(arrival));
  }
  for (RequestId id : mail.cancels) {
    const auto found = sequences.find(id.value);
    if (found == sequences.end()) continue;
    Event event;
    event.id = id;
    event.finish = FinishReason::kCancelled;
    Send(found->second.get(), std::move(event));
  }
}

std::span<const ScheduledRows> Engine::Impl::ChooseRows() {
  const TraceScope scope(&context->trace, Zone::kSchedule);
  return scheduler.Schedule();
}

void Engine::Impl::BuildStep(std::span<const ScheduledRows> scheduled) {
  const TraceScope scope(&context->trace, Zone::kBatch);
  BuildBatch(scheduled, &step);
}

void Engine::Impl::Answer(std::span<const ScheduledRows> scheduled,
                          const std::vector<LogitReader::Row>& rows) {
  const TraceScope scope(&context->trace, Zone::kAnswer);
  size_t next = 0;  // uses are in the order of `scheduled`
  for (const ScheduledRows& entry : scheduled) {
    Sequence* sequence = entry.sequence;
    Event event;
    event.id = sequence->id;
    scheduler.Advance(sequence, entry.rows);
    int32_t right = 0;  // of the guesses
    for (; next < rows.size() && step.uses[next].sequence == sequence; ++next) {
      if (event.finish != FinishReason::kNone || !rows[next].reached) continue;
      if (step.uses[next].guessed > 0) ++right;
      AcceptRow(step.uses[next], rows[next], &event);
    }
    CountDrafts(entry, right);
    if (event.finish == FinishReason::kError) {
      if (!event.tokens.empty()) {
        // What the guesses before it made is answered, as it were without them.
        Event before;
        before.id = event.id;
        before.tokens = std::move(event.tokens);
        before.text = std::move(event.text);
        Send(sequence, std::move(before));
        event.tokens.clear();
        event.text.clear();
      }
      event.prompt_tokens.clear();
    } else if (!sequence->prompt_done && sequence->computed >= sequence->prompt_size) {
      sequence->prompt_done = true;
      values.prompt_tokens += sequence->prompt_size;
      event.prompt_tokens = std::move(sequence->prompt_infos);
      if (sequence->sampling.max_tokens == 0) event.finish = FinishReason::kLength;
    }
    if (event.finish != FinishReason::kNone || !event.tokens.empty() ||
        !event.prompt_tokens.empty()) {
      Send(sequence, std::move(event));
    }
  }
}

void Engine::Impl::AcceptRow(const LogitUse& use, const LogitReader::Row& row, Event* event) {
  Sequence* sequence = use.sequence;
  if (!row.finite) {
    event->finish = FinishReason::kError;
    event->status = NotFinite(use);
    return;
  }
  if (!use.samples) {
    sequence->prompt_infos.push_back(row.info);
    return;
  }
  // The guess was right, so the position that was computed from it is the sequence's.
  if (use.guessed > 0) scheduler.Advance(sequence, 1);
  if (sequence->checker.generated() == 0) {
    ++values.first_tokens;
    values.first_token_ns += std::chrono::duration_cast<std::chrono::nanoseconds>(
                                 std::chrono::steady_clock::now() - sequence->submitted)
                                 .count();
  }
  ++values.generated_tokens;
  sequence->tokens.push_back(row.info.token);
  sequence->counts.AddOutput(row.info.token);
  StopChecker::Verdict verdict = sequence->checker.Accept(row.info.token);
  event->tokens.push_back(row.info);
  event->text += verdict.text;
  event->finish = verdict.finish;
  event->stop_reason = std::move(verdict.stop_reason);
}

void Engine::Impl::Send(Sequence* sequence, Event event) {
  if (event.finish == FinishReason::kNone) {
    if (sequence->sink) sequence->sink(std::move(event));
    return;
  }
  CountEnd(event.finish);
  // The sequence goes first: whoever hears of its end may count on its pages and its pin being
  // back.
  const EventSink sink = std::move(sequence->sink);
  scheduler.Remove(sequence);
  LeaveAdapter(sequence);
  sequences.erase(event.id.value);
  if (sink) sink(std::move(event));
}

void Engine::Impl::CountEnd(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
    case FinishReason::kLength:
      ++values.finished;
      return;
    case FinishReason::kCancelled:
      ++values.cancelled;
      return;
    case FinishReason::kError:
      ++values.failed;
      return;
    case FinishReason::kNone:
      return;
  }
}

void Engine::Impl::CountStep(std::span<const ScheduledRows> scheduled) {
  ++values.steps;
  for (const ScheduledRows& entry : scheduled) {
    values.rows += entry.total();
    if (entry.sequence->slot == lora::kBaseModel) continue;
    values.adapter_rows += entry.total();
    entry.sequence->adapter.version().adapter()->rows.fetch_add(entry.total(),
                                                                std::memory_order_relaxed);
  }
  const int64_t segments = transformer->segments();
  values.segments += segments;
  values.max_segments = std::max(values.max_segments, segments);
}

void Engine::Impl::CountDrafts(const ScheduledRows& entry, int32_t right) {
  if (entry.drafts == 0) return;
  entry.sequence->drafter->Learn(entry.drafts, right);
  values.drafted_tokens += entry.drafts;
  values.accepted_tokens += right;
}

void Engine::Impl::PublishMetrics() {
  const Trace& trace = context->trace;
  values.step_ns = trace.counter(Zone::kStep).nanoseconds;
  values.lora_ns =
      trace.counter(Zone::kLoraShrink).nanoseconds + trace.counter(Zone::kLoraExpand).nanoseconds;
  values.preemptions = scheduler.preemptions();
  values.reused_tokens = scheduler.reused_tokens();
  values.kv_pages_cached = allocator.cached_pages();
  values.running = scheduler.running();
  values.waiting = scheduler.waiting();
  values.kv_pages_used = allocator.used_pages();
  metrics.Publish(values);
}

}  // namespace lorica::engine
