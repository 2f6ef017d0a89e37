// Scheduler: who runs in the next step, and with how many rows. Continuous batching with chunked
// prefill under a budget of rows; first come, first served; preemption by recompute.
//
// Rules, in the order in which Schedule applies them:
//  1. Admission is by arrival. A sequence is admitted when one of max_num_seqs places is free and
//     its pages are, beside one spare page for each that runs already. The first that does not fit
//     holds up those behind it; one whose adapter is not hot waits alone and holds up nobody.
//  2. Decodes (one row left) go first, in turn, but leave a quarter of the budget (at least one
//     row; every second step when it is one) to prefills, which take it by arrival. What either
//     side leaves the other takes.
//     Its leading pages that are in memory already, by content, are shared instead of computed.
//  3. Pages grow by arrival. When none is free, the youngest that runs gives its pages back and
//     waits again, at its place by arrival.
//  4. Drafts of sequences that decode take of the budget what is left, and of the pages what leaves
//     a spare one to each that runs, so they delay and preempt nobody.
// So the oldest always proceeds (Submit refuses what could not fit alone), and no one starves:
// while it runs, a decode has a row at least every ceil(max_num_seqs / (budget - quarter)) steps
// (with a budget of one, every 2 * max_num_seqs).
//
// Owned and called by the engine thread. Sequences belong to the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "lorica/base/status.h"
#include "lorica/engine/kv_allocator.h"
#include "lorica/engine/sequence.h"

namespace lorica::engine {

struct ScheduledRows {
  Sequence* sequence = nullptr;
  int32_t rows = 0;  // from position sequence->computed on
  // Further rows, whose tokens are guesses: the first of sequence->draft. Only behind the last
  // token of a sequence.
  int32_t drafts = 0;
  int32_t total() const { return rows + drafts; }
};

class Scheduler {
 public:
  struct Options {
    int32_t max_num_seqs = 1;            // that run at once
    int32_t max_num_batched_tokens = 1;  // rows a step
  };
  // A slot of a sequence's adapter, held from then on, or nothing while it is not hot.
  using FindSlot = std::function<std::optional<lora::SlotId>(Sequence&)>;
  // A sequence that held one waits again.
  using ReleaseSlot = std::function<void(Sequence&)>;

  // `pages` must outlive it. `release_slot` may be empty.
  Scheduler(const Options& options, KvAllocator* pages, FindSlot find_slot,
            ReleaseSlot release_slot = nullptr);

  // A new sequence, kWaiting.
  void Add(Sequence* sequence);
  // It is done with, whatever its state: its pages go back, and it becomes kFinished.
  void Remove(Sequence* sequence);

  // The next step's rows, ordered by (slot, arrival): each has pages for them. The caller computes
  // them all and raises Sequence::computed. Valid until the next call. Empty: nothing can run.
  std::span<const ScheduledRows> Schedule();
  // `rows` more positions of a scheduled sequence are computed, from its tokens as they are now.
  void Advance(Sequence* sequence, int32_t rows);
  // All sequences of this adapter that run give their places back and wait, by arrival.
  void PreemptAll(const lora::TieredAdapter* adapter);

  int32_t running() const { return static_cast<int32_t>(running_.size()); }
  int32_t waiting() const { return static_cast<int32_t>(waiting_.size()); }
  int64_t preemptions() const { return preemptions_; }
  // Positions that were found in pages computed before.
  int64_t reused_tokens() const { return reused_tokens_; }

  // States, lists, pages and identities agree; between steps.
  Status CheckIntegrity() const;

 private:
  void Admit();
  void DivideBudget();
  // Pages for all scheduled rows; drops the preempted from the step.
  void GrowPages();
  void AddDrafts();
  // Of `most` rows behind the last token of the sequence, those that pages can be had for.
  int32_t DraftsThatFit(const Sequence& sequence, int32_t most) const;
  bool TakePages(Sequence* sequence, int32_t tokens);
  // Pages that hold leading tokens of the sequence already, but never its last.
  std::vector<int32_t> FindPages(const Sequence& sequence) const;
  void GivePagesBack(Sequence* sequence);
  void Preempt(Sequence* sequence);
  static void InsertByArrival(Sequence* sequence, std::vector<Sequence*>* list);
  Status CheckSequence(const Sequence& sequence) const;

  Options options_;
  KvAllocator* pages_;
  FindSlot find_slot_;
  ReleaseSlot release_slot_;
  std::vector<Sequence*> waiting_;  // kWaiting and kAwaitingAdapter, by arrival
  std::vector<Sequence*> running_;  // kRunning, by arrival
  std::vector<ScheduledRows> scheduled_;
  std::vector<Sequence*> decodes_;  // scratch
  uint64_t step_ = 0;
  uint64_t turn_ = 0;  // of decodes
  int64_t preemptions_ = 0;
  int64_t reused_tokens_ = 0;
};

}  // namespace lorica::engine
