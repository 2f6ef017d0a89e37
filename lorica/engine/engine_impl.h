// Engine::Impl: the parts of an engine and what Step does with them. Private to the engine folder.
// The engine thread owns everything but `registry`, `tiers`, `inbox`, `metrics` and `cache`, which
// lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "lorica/engine/admission.h"
#include "lorica/engine/batch_builder.h"
#include "lorica/engine/engine.h"
#include "lorica/engine/inbox.h"
#include "lorica/engine/kv_allocator.h"
#include "lorica/engine/logit_reader.h"
#include "lorica/engine/scheduler.h"
#include "lorica/lora/fetch_thread.h"
#include "lorica/model/kv_pages.h"
#include "lorica/model/transformer.h"

namespace lorica::engine {

struct Engine::Impl {
  Impl(const model::Model* base_model, std::shared_ptr<const formats::Tokenizer> tokens,
       const EngineOptions& resolved, MachineContext* machine, model::KvPages kv_pages,
       std::unique_ptr<lora::AdapterCache> adapters, std::unique_ptr<model::Transformer> body);
  ~Impl();

  // Fixed.
  const model::Model* model;
  std::shared_ptr<const formats::Tokenizer> tokenizer;
  EngineOptions options;
  MachineContext* context;
  std::vector<int32_t> eos_ids;  // the model's and the tokenizer's, inside the vocabulary
  RequestLimits limits;

  // Any thread.
  std::unique_ptr<lora::AdapterCache> cache;
  Inbox inbox;
  lora::AdapterTiers tiers;
  lora::Registry registry;
  Metrics metrics;
  std::atomic<uint64_t> next_seed;  // for requests that bring none

  // The engine thread.
  model::KvPages pages;
  std::unique_ptr<model::Transformer> transformer;
  KvAllocator allocator;
  Scheduler scheduler;
  StepBatch step;
  LogitReader reader;
  std::unordered_map<uint64_t, std::unique_ptr<Sequence>> sequences;  // alive, by id
  MetricValues values;
  bool stalled = false;  // the last step found nothing that could run
  uint64_t seen_failures = 0;

  std::unique_ptr<lora::FetchThread> loader;  // the last to be made, the first to end

  void TakeMail();
  // Ends those whose adapter cannot be fetched, makes those give way whose adapter has to leave,
  // and compacts if asked to.
  void TendAdapters();
  std::optional<lora::SlotId> FindSlot(Sequence& sequence);
  void ReleaseSlot(Sequence& sequence);
  // Whatever it waited for or held of its adapter, it does no more.
  void LeaveAdapter(Sequence* sequence);
  std::span<const ScheduledRows> ChooseRows();
  void BuildStep(std::span<const ScheduledRows> scheduled);
  void Answer(std::span<const ScheduledRows> scheduled, const std::vector<LogitReader::Row>& rows);
  // One row's token into its sequence and its event.
  void AcceptRow(const LogitUse& use, const LogitReader::Row& row, Event* event);
  // Hands the event out; a final one ends the sequence first.
  void Send(Sequence* sequence, Event event);
  void CountEnd(FinishReason reason);
  void CountStep(std::span<const ScheduledRows> scheduled);
  // Of the entry's guesses `right` were right.
  void CountDrafts(const ScheduledRows& entry, int32_t right);
  void PublishMetrics();
};

}  // namespace lorica::engine
