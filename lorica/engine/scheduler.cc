#include "lorica/engine/scheduler.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "lorica/kernels/params.h"

namespace lorica::engine {

Scheduler::Scheduler(const Options& options, KvAllocator* pages, FindSlot find_slot,
                     ReleaseSlot release_slot)
    : options_(options),
      pages_(pages),
      find_slot_(std::move(find_slot)),
      release_slot_(std::move(release_slot)) {
  LORICA_CHECK(options_.max_num_seqs >= 1 && options_.max_num_batched_tokens >= 1);
}

void Scheduler::Add(Sequence* sequence) {
  LORICA_CHECK(sequence->state == SequenceState::kWaiting);
  InsertByArrival(sequence, &waiting_);
}

void Scheduler::Remove(Sequence* sequence) {
  GivePagesBack(sequence);
  std::erase(running_, sequence);
  std::erase(waiting_, sequence);
  sequence->state = SequenceState::kFinished;
}

std::span<const ScheduledRows> Scheduler::Schedule() {
  ++step_;
  Admit();
  do {
    DivideBudget();
    GrowPages();
    // Empty though something runs: the few that had the budget were preempted. Their pages now
    // serve the others.
  } while (scheduled_.empty() && !running_.empty());
  AddDrafts();
  // By slot, so that the order of the segments is the order of the rows.
  std::sort(scheduled_.begin(), scheduled_.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.sequence->slot, a.sequence->id) <
           std::tuple(b.sequence->slot, b.sequence->id);
  });
  return scheduled_;
}

void Scheduler::Admit() {
  for (size_t i = 0; i < waiting_.size() && running() < options_.max_num_seqs;) {
    Sequence* sequence = waiting_[i];
    const std::optional<lora::SlotId> slot = find_slot_(*sequence);
    if (!slot.has_value()) {
      sequence->state = SequenceState::kAwaitingAdapter;
      ++i;
      continue;
    }
    sequence->state = SequenceState::kWaiting;
    // A spare page for each that runs: else the newcomer would be preempted before its first token.
    const std::vector<int32_t> shared = FindPages(*sequence);
    const auto held = std::count_if(shared.begin(), shared.end(),
                                    [&](int32_t page) { return pages_->references(page) > 0; });
    if (PagesFor(sequence->size()) - held + running() > pages_->free_pages()) {
      if (release_slot_) release_slot_(*sequence);
      return;
    }
    for (int32_t page : shared) pages_->Reuse(page);
    sequence->pages = shared;
    sequence->computed = static_cast<int32_t>(shared.size()) * kernels::kPageTokens;
    reused_tokens_ += sequence->computed;
    LORICA_CHECK(TakePages(sequence, sequence->size()));
    sequence->slot = *slot;
    sequence->state = SequenceState::kRunning;
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
    InsertByArrival(sequence, &running_);
  }
}

std::vector<int32_t> Scheduler::FindPages(const Sequence& sequence) const {
  std::vector<int32_t> found;
  // Log-probabilities of a prompt come with its rows, so each row has to be computed.
  if (!sequence.page_keys.has_value() || sequence.wants_prompt_logprobs()) return found;
  const std::vector<PageKey>& keys = sequence.page_keys->keys();
  // The last token is computed in any case: its row gives the logits.
  const auto most = static_cast<size_t>((sequence.size() - 1) / kernels::kPageTokens);
  for (size_t i = 0; i < std::min(keys.size(), most); ++i) {
    const std::optional<int32_t> page = pages_->Find(keys[i]);
    if (!page.has_value()) break;
    found.push_back(*page);
  }
  return found;
}

void Scheduler::Advance(Sequence* sequence, int32_t rows) {
  const auto before = static_cast<size_t>(sequence->computed / kernels::kPageTokens);
  sequence->computed += rows;
  if (!sequence->page_keys.has_value()) return;
  const auto full = static_cast<size_t>(sequence->computed / kernels::kPageTokens);
  if (full == before) return;
  sequence->page_keys->Extend(sequence->tokens);
  for (size_t i = before; i < full; ++i) {
    pages_->SetKey(sequence->pages[i], sequence->page_keys->keys()[i]);
  }
}

void Scheduler::PreemptAll(const lora::TieredAdapter* adapter) {
  for (size_t i = running_.size(); i > 0; --i) {
    Sequence* sequence = running_[i - 1];
    if (sequence->adapter.is_base() || sequence->adapter.version().adapter().get() != adapter) {
      continue;
    }
    Preempt(sequence);
  }
}

void Scheduler::DivideBudget() {
  scheduled_.clear();
  decodes_.clear();
  int64_t prefill_rows = 0;
  for (Sequence* sequence : running_) {
    if (sequence->pending() == 1) {
      decodes_.push_back(sequence);
    } else {
      prefill_rows += sequence->pending();
    }
  }
  std::sort(decodes_.begin(), decodes_.end(), [](const Sequence* a, const Sequence* b) {
    return std::tuple(a->last_turn, a->id) < std::tuple(b->last_turn, b->id);
  });

  const int32_t budget = options_.max_num_batched_tokens;
  int32_t share = std::max(1, budget / 4);
  if (budget == 1 && step_ % 2 == 0) share = 0;
  const auto reserved = static_cast<int32_t>(std::min<int64_t>(share, prefill_rows));
  size_t next_decode = 0;
  int32_t left = budget;
  auto take_decodes = [&](int32_t keep) {
    for (; next_decode < decodes_.size() && left > keep; ++next_decode, --left) {
      decodes_[next_decode]->last_turn = ++turn_;
      scheduled_.push_back({decodes_[next_decode], 1});
    }
  };
  take_decodes(reserved);
  for (Sequence* sequence : running_) {
    if (left == 0) break;
    if (sequence->pending() == 1) continue;
    const int32_t rows = std::min(left, sequence->pending());
    scheduled_.push_back({sequence, rows});
    left -= rows;
  }
  take_decodes(0);
}

void Scheduler::GrowPages() {
  std::sort(scheduled_.begin(), scheduled_.end(),
            [](const auto& a, const auto& b) { return a.sequence->id < b.sequence->id; });
  for (const ScheduledRows& entry : scheduled_) {
    Sequence* sequence = entry.sequence;
    while (sequence->state == SequenceState::kRunning &&
           !TakePages(sequence, sequence->computed + entry.rows)) {
      Preempt(running_.back());
    }
  }
  std::erase_if(scheduled_, [](const ScheduledRows& entry) {
    return entry.sequence->state != SequenceState::kRunning;
  });
}

void Scheduler::AddDrafts() {
  int32_t rows = 0;
  for (const ScheduledRows& entry : scheduled_) rows += entry.rows;
  DraftWorth worth(rows);
  int32_t left = options_.max_num_batched_tokens - rows;
  for (ScheduledRows& entry : scheduled_) {
    if (left == 0) return;
    Sequence* sequence = entry.sequence;
    if (!sequence->drafter.has_value() || sequence->pending() != 1) continue;
    const int32_t generated = sequence->size() - sequence->prompt_size;
    // The row of the last token but one chooses the last.
    const int32_t most =
        DraftsThatFit(*sequence, std::min(left, sequence->sampling.max_tokens - generated - 1));
    sequence->draft = sequence->drafter->Propose(sequence->tokens, most, &worth);
    entry.drafts = static_cast<int32_t>(sequence->draft.size());
    left -= entry.drafts;
    LORICA_CHECK(TakePages(sequence, sequence->size() + entry.drafts));
  }
}

int32_t Scheduler::DraftsThatFit(const Sequence& sequence, int32_t most) const {
  const auto held = static_cast<int32_t>(sequence.pages.size());
  const int32_t spare = std::max(0, pages_->free_pages() - running());
  return std::min(most, (held + spare) * kernels::kPageTokens - sequence.size());
}

bool Scheduler::TakePages(Sequence* sequence, int32_t tokens) {
  const auto want = static_cast<size_t>(PagesFor(tokens));
  while (sequence->pages.size() < want) {
    const std::optional<int32_t> page = pages_->Allocate(sequence->identity);
    if (!page.has_value()) return false;
    sequence->pages.push_back(*page);
  }
  return true;
}

void Scheduler::GivePagesBack(Sequence* sequence) {
  // The last first: a prefix is worth more than what comes after it.
  for (size_t i = sequence->pages.size(); i > 0; --i) pages_->Release(sequence->pages[i - 1]);
  sequence->pages.clear();
  sequence->computed = 0;
}

void Scheduler::Preempt(Sequence* sequence) {
  GivePagesBack(sequence);
  if (release_slot_) release_slot_(*sequence);
  std::erase(running_, sequence);
  sequence->state = SequenceState::kWaiting;
  ++sequence->preemptions;
  ++preemptions_;
  InsertByArrival(sequence, &waiting_);
}

void Scheduler::InsertByArrival(Sequence* sequence, std::vector<Sequence*>* list) {
  const auto place =
      std::upper_bound(list->begin(), list->end(), sequence,
                       [](const Sequence* a, const Sequence* b) { return a->id < b->id; });
  list->insert(place, sequence);
}

Status Scheduler::CheckSequence(const Sequence& sequence) const {
  const std::string name = "sequence " + std::to_string(sequence.id.value);
  const bool runs = sequence.state == SequenceState::kRunning;
  if (!runs && (!sequence.pages.empty() || sequence.computed != 0)) {
    return Internal(name + " is " + std::string(SequenceStateName(sequence.state)) +
                    " and holds pages");
  }
  if (sequence.computed > sequence.size() ||
      PagesFor(sequence.computed) > static_cast<int32_t>(sequence.pages.size())) {
    return Internal(name + " has " + std::to_string(sequence.computed) + " positions computed, " +
                    std::to_string(sequence.size()) + " tokens and " +
                    std::to_string(sequence.pages.size()) + " pages");
  }
  for (int32_t page : sequence.pages) {
    if (pages_->references(page) < 1 || !(pages_->identity(page) == sequence.identity)) {
      return Internal(name + " reads K/V page " + std::to_string(page) +
                      ", which is free or of another K/V identity");
    }
  }
  return OkStatus();
}

Status Scheduler::CheckIntegrity() const {
  LORICA_RETURN_IF_ERROR(pages_->CheckIntegrity());
  if (running() > options_.max_num_seqs) {
    return Internal(std::to_string(running()) + " sequences run, more than max_num_seqs " +
                    std::to_string(options_.max_num_seqs));
  }
  std::vector<int32_t> holders(static_cast<size_t>(pages_->pages()), 0);
  for (const auto* list : {&waiting_, &running_}) {
    for (size_t i = 0; i < list->size(); ++i) {
      const Sequence& sequence = *(*list)[i];
      if (i > 0 && !((*list)[i - 1]->id < sequence.id)) {
        return Internal("a list of sequences is not in order of arrival");
      }
      const bool waits = sequence.state == SequenceState::kWaiting ||
                         sequence.state == SequenceState::kAwaitingAdapter;
      if ((list == &waiting_) != waits) {
        return Internal("sequence " + std::to_string(sequence.id.value) + " is in the wrong list");
      }
      LORICA_RETURN_IF_ERROR(CheckSequence(sequence));
      for (int32_t page : sequence.pages) ++holders[static_cast<size_t>(page)];
    }
  }
  for (int32_t page = 0; page < pages_->pages(); ++page) {
    if (holders[static_cast<size_t>(page)] != pages_->references(page)) {
      return Internal("K/V page " + std::to_string(page) + " counts " +
                      std::to_string(pages_->references(page)) + " holders and has " +
                      std::to_string(holders[static_cast<size_t>(page)]));
    }
  }
  return OkStatus();
}

}  // namespace lorica::engine
