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
      next_seed(RandomSeed()),
      pages(std::move(kv_pages)),
      transformer(std::move(body)),
      allocator(pages.pages()),
      scheduler({resolved.max_num_seqs, resolved.max_num_batched_tokens}, &allocator,
                [this](const Sequence& sequence) -> std::optional<lora::SlotId> {
                  if (sequence.adapter.is_base()) return lora::kBaseModel;
                  return cache->FindSlot(sequence.adapter.version().digest());
                }),
      reader(base_model->config().vocab, machine) {
  limits.vocab = model->config().vocab;
  limits.max_model_len = options.max_model_len;
  limits.kv_pages = pages.pages();
  limits.has_tokenizer = tokenizer != nullptr;
  values.kv_pages = pages.pages();
}

void Engine::Impl::TakeMail() {
  Inbox::Mail mail = inbox.Take();
  values.submitted += static_cast<int64_t>(mail.arrivals.size());
  for (std::unique_ptr<Sequence>& arrival : mail.arrivals) {
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
  size_t next = 0;  // uses are in the order of `scheduled`
  for (const ScheduledRows& entry : scheduled) {
    Sequence* sequence = entry.sequence;
    Event event;
    event.id = sequence->id;
    sequence->computed += entry.rows;
    for (; next < rows.size() && step.uses[next].sequence == sequence; ++next) {
      if (event.finish != FinishReason::kError) AcceptRow(step.uses[next], rows[next], &event);
    }
    if (event.finish == FinishReason::kError) {
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
  event->text = std::move(verdict.text);
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
    values.rows += entry.rows;
    if (entry.sequence->slot != lora::kBaseModel) values.adapter_rows += entry.rows;
  }
  const int64_t segments = transformer->segments();
  values.segments += segments;
  values.max_segments = std::max(values.max_segments, segments);
}

void Engine::Impl::PublishMetrics() {
  const Trace& trace = context->trace;
  values.step_ns = trace.counter(Zone::kStep).nanoseconds;
  values.lora_ns =
      trace.counter(Zone::kLoraShrink).nanoseconds + trace.counter(Zone::kLoraExpand).nanoseconds;
  values.preemptions = scheduler.preemptions();
  values.running = scheduler.running();
  values.waiting = scheduler.waiting();
  values.kv_pages_used = allocator.used_pages();
  metrics.Publish(values);
}

}  // namespace lorica::engine
