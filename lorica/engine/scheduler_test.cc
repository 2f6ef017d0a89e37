// The scheduler against a model that computes nothing: each scheduled row is taken as computed, and
// a sequence that reaches its end in a step gets one more token, and one for each guess that was
// right.
#include "lorica/engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <string>

#include "lorica/engine/batch_builder.h"
// Behind gtest.
#include <rapidcheck/gtest.h>

namespace lorica::engine {
namespace {

struct Spec {
  int32_t prompt = 1;
  int32_t max_tokens = 1;
  int32_t adapter = -1;  // slot, or the base
  bool speculates = false;
};

class Simulation {
 public:
  Simulation(Scheduler::Options options, int32_t pages)
      : options_(options),
        pages_(pages),
        scheduler_(options, &pages_, [this](const Sequence& s) -> std::optional<lora::SlotId> {
          const lora::SlotId slot = slots_[s.id.value];
          if (cold_.count(slot.index) != 0) return std::nullopt;
          return slot;
        }) {
    slots_.push_back({});  // ids begin at 1
  }

  Sequence* Add(const Spec& spec) {
    Request request;
    request.prompt.assign(static_cast<size_t>(spec.prompt), 7);
    request.sampling.max_tokens = spec.max_tokens;
    auto sequence =
        std::make_unique<Sequence>(std::move(request), StopChecker(request.sampling, {}, nullptr));
    sequence->id = {static_cast<uint64_t>(slots_.size())};
    sequence->identity = MakeKvIdentity({"base", DType::kF32, std::to_string(spec.adapter), 1.0});
    slots_.push_back({spec.adapter});
    if (spec.speculates) sequence->drafter.emplace(spec.prompt + spec.max_tokens);
    scheduler_.Add(sequence.get());
    all_.push_back(std::move(sequence));
    return all_.back().get();
  }

  // One step; the rows that were scheduled.
  std::vector<ScheduledRows> Step() {
    const auto span = scheduler_.Schedule();
    std::vector<ScheduledRows> rows(span.begin(), span.end());
    Check(rows);
    for (const ScheduledRows& entry : rows) {
      Sequence* s = entry.sequence;
      s->computed += entry.rows;
      if (s->computed < s->size()) continue;
      const int32_t generated = s->size() - s->prompt_size;
      if (generated < s->sampling.max_tokens) s->tokens.push_back(NextToken(*s));
      int32_t right = 0;
      while (right < entry.drafts && s->draft[static_cast<size_t>(right)] == s->tokens.back()) {
        ++right;
        ++s->computed;
        s->tokens.push_back(NextToken(*s));
      }
      if (entry.drafts > 0) s->drafter->Learn(entry.drafts, right);
      drafted_ += entry.drafts;
      right_ += right;
      if (s->size() - s->prompt_size >= s->sampling.max_tokens) {
        scheduler_.Remove(s);
        ++finished_;
      }
    }
    const Status integrity = scheduler_.CheckIntegrity();
    EXPECT_TRUE(integrity.ok()) << integrity.ToString();
    return rows;
  }

  void Check(const std::vector<ScheduledRows>& rows) {
    int64_t total = 0;
    std::set<Sequence*> seen;
    for (size_t i = 0; i < rows.size(); ++i) {
      const Sequence& s = *rows[i].sequence;
      EXPECT_TRUE(seen.insert(rows[i].sequence).second);
      EXPECT_EQ(s.state, SequenceState::kRunning);
      EXPECT_GE(rows[i].rows, 1);
      EXPECT_LE(rows[i].rows, s.pending());
      EXPECT_GE(static_cast<int32_t>(s.pages.size()), PagesFor(s.computed + rows[i].total()));
      if (rows[i].drafts > 0) {
        EXPECT_EQ(s.computed + rows[i].rows, s.size());
        EXPECT_LT(s.size() + rows[i].drafts, s.prompt_size + s.sampling.max_tokens);
      }
      if (i > 0) {
        EXPECT_LE(rows[i - 1].sequence->slot, s.slot);
      }
      total += rows[i].total();
    }
    EXPECT_LE(total, options_.max_num_batched_tokens);
    EXPECT_LE(static_cast<int32_t>(rows.size()), options_.max_num_seqs);
  }

  Scheduler& scheduler() { return scheduler_; }
  KvAllocator& pages() { return pages_; }
  int64_t finished() const { return finished_; }
  int64_t drafted() const { return drafted_; }
  int64_t right() const { return right_; }
  std::set<int32_t>& cold() { return cold_; }

 private:
  static int32_t NextToken(const Sequence& s) { return s.size() % 40 == 0 ? s.size() : 9; }

  Scheduler::Options options_;
  KvAllocator pages_;
  Scheduler scheduler_;
  std::vector<lora::SlotId> slots_;  // by id
  std::set<int32_t> cold_;
  std::deque<std::unique_ptr<Sequence>> all_;
  int64_t finished_ = 0;
  int64_t drafted_ = 0;
  int64_t right_ = 0;
};

int32_t RowsOf(const std::vector<ScheduledRows>& rows, const Sequence* sequence) {
  for (const ScheduledRows& entry : rows) {
    if (entry.sequence == sequence) return entry.rows;
  }
  return 0;
}

TEST(Scheduler, CutsAPromptIntoChunks) {
  Simulation sim({4, 16}, 10);
  Sequence* s = sim.Add({40, 2});
  EXPECT_EQ(RowsOf(sim.Step(), s), 16);
  EXPECT_EQ(RowsOf(sim.Step(), s), 16);
  EXPECT_EQ(RowsOf(sim.Step(), s), 8);
  EXPECT_EQ(RowsOf(sim.Step(), s), 1);
  EXPECT_EQ(s->state, SequenceState::kFinished);
  EXPECT_EQ(sim.pages().used_pages(), 0);
}

TEST(Scheduler, DecodesAndPrefillsShareTheBudget) {
  Simulation sim({32, 8}, 1000);
  std::vector<Sequence*> decodes;
  for (int i = 0; i < 20; ++i) decodes.push_back(sim.Add({1, 100}));
  for (int i = 0; i < 3; ++i) sim.Step();  // all have begun
  Sequence* prefill = sim.Add({50, 1});
  int32_t steps = 0;
  std::vector<int64_t> served(decodes.size(), 0);
  while (prefill->state != SequenceState::kFinished) {
    const auto rows = sim.Step();
    EXPECT_GE(RowsOf(rows, prefill), 2);  // a quarter of 8
    for (size_t i = 0; i < decodes.size(); ++i) served[i] += RowsOf(rows, decodes[i]);
    ASSERT_LT(++steps, 26);
  }
  // In turn: no decode is two rows ahead of another.
  const auto [least, most] = std::minmax_element(served.begin(), served.end());
  EXPECT_LE(*most - *least, 1);
}

TEST(Scheduler, OrdersRowsBySlotThenArrival) {
  Simulation sim({8, 64}, 100);
  Sequence* a = sim.Add({3, 1, 5});
  Sequence* b = sim.Add({3, 1, -1});
  Sequence* c = sim.Add({3, 1, 2});
  Sequence* d = sim.Add({3, 1, 5});
  const auto rows = sim.Step();
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].sequence, b);
  EXPECT_EQ(rows[1].sequence, c);
  EXPECT_EQ(rows[2].sequence, a);
  EXPECT_EQ(rows[3].sequence, d);
}

TEST(Scheduler, PreemptsTheYoungestAndRecomputesIt) {
  Simulation sim({4, 64}, 4);
  Sequence* old = sim.Add({16, 40});  // grows to 4 pages
  Sequence* young = sim.Add({15, 30});
  sim.Step();
  EXPECT_EQ(young->state, SequenceState::kRunning);
  while (young->preemptions == 0) sim.Step();
  EXPECT_EQ(young->state, SequenceState::kWaiting);
  EXPECT_EQ(young->computed, 0);
  EXPECT_TRUE(young->pages.empty());
  EXPECT_EQ(old->preemptions, 0);
  const int32_t generated = young->size() - young->prompt_size;
  EXPECT_GT(generated, 0);  // and its tokens stay
  for (int i = 0; i < 200 && sim.finished() < 2; ++i) sim.Step();
  EXPECT_EQ(sim.finished(), 2);
  EXPECT_EQ(young->size(), 45);
  EXPECT_EQ(sim.pages().used_pages(), 0);
}

TEST(Scheduler, AColdAdapterWaitsAloneAndAFullPoolKeepsTheOrder) {
  Simulation sim({8, 64}, 6);
  sim.cold().insert(3);
  Sequence* cold = sim.Add({10, 5, 3});
  Sequence* first = sim.Add({60, 5});  // 4 pages
  Sequence* large = sim.Add({60, 5});  // does not fit beside it
  Sequence* small = sim.Add({1, 1});   // would, but came later
  sim.Step();
  EXPECT_EQ(cold->state, SequenceState::kAwaitingAdapter);
  EXPECT_EQ(first->state, SequenceState::kRunning);
  EXPECT_EQ(large->state, SequenceState::kWaiting);
  EXPECT_EQ(small->state, SequenceState::kWaiting);
  sim.cold().clear();
  sim.Step();
  EXPECT_EQ(cold->state, SequenceState::kRunning);
  for (int i = 0; i < 100 && sim.finished() < 4; ++i) sim.Step();
  EXPECT_EQ(sim.finished(), 4);
}

TEST(Scheduler, RemoveTakesASequenceOutOfAnyState) {
  Simulation sim({1, 8}, 6);
  sim.cold().insert(3);
  Sequence* runs = sim.Add({20, 5});
  Sequence* waits = sim.Add({20, 5});
  Sequence* cold = sim.Add({20, 5, 3});
  sim.Step();
  for (Sequence* s : {waits, cold, runs}) {
    sim.scheduler().Remove(s);
    EXPECT_EQ(s->state, SequenceState::kFinished);
    EXPECT_TRUE(sim.scheduler().CheckIntegrity().ok());
  }
  EXPECT_EQ(sim.pages().used_pages(), 0);
  EXPECT_TRUE(sim.Step().empty());
}

// With a budget of one, neither pure prefills that keep coming nor decodes can shut the other out.
TEST(Scheduler, ABudgetOfOneServesBoth) {
  Simulation sim({4, 1}, 100);
  Sequence* decode = sim.Add({1, 20});
  sim.Step();
  int steps = 0;
  while (decode->state != SequenceState::kFinished) {
    sim.Add({5, 0});
    sim.Step();
    ASSERT_LT(++steps, 200);
  }
  EXPECT_GT(sim.finished(), 1);
}

// Random arrivals and cancellations: everybody ends, the oldest always moves, integrity holds after
// every step (Simulation::Step and Check assert it).
TEST(Scheduler, NoOneStarves) {
  EXPECT_TRUE(rc::check([] {
    const int32_t page_count = *rc::gen::inRange(8, 40);
    const Scheduler::Options options{*rc::gen::inRange(1, 33),
                                     *rc::gen::element(1, 2, 3, 5, 16, 64, 512)};
    Simulation sim(options, page_count);
    std::deque<Sequence*> alive;
    int64_t rows_left = 0;
    const int arrivals = *rc::gen::inRange(1, 30);
    for (int i = 0; i < arrivals; ++i) {
      const int32_t prompt = *rc::gen::inRange(1, 90);
      const Spec spec{prompt, *rc::gen::inRange(0, page_count * 16 - prompt + 1),
                      *rc::gen::inRange(-1, 4), *rc::gen::arbitrary<bool>()};
      const Spec bounded{spec.prompt, std::min(spec.max_tokens, 60), spec.adapter, spec.speculates};
      alive.push_back(sim.Add(bounded));
      rows_left += bounded.prompt + bounded.max_tokens;
      const int steps = *rc::gen::inRange(0, 6);
      for (int s = 0; s < steps; ++s) sim.Step();
      if (*rc::gen::inRange(0, 8) == 0 && alive.back()->state != SequenceState::kFinished) {
        sim.scheduler().Remove(alive.back());
      }
    }
    // The oldest has a row at least every second step times its turn among max_num_seqs decodes.
    const int64_t most_steps = 4 * rows_left * options.max_num_seqs + 100;
    int64_t steps = 0;
    auto done = [&] {
      return std::all_of(alive.begin(), alive.end(),
                         [](const Sequence* s) { return s->state == SequenceState::kFinished; });
    };
    while (!done()) {
      RC_ASSERT(!sim.Step().empty());
      RC_ASSERT(!testing::Test::HasFailure());
      RC_ASSERT(++steps < most_steps);
    }
    RC_ASSERT(sim.pages().used_pages() == 0);
    for (const Sequence* s : alive) {
      RC_ASSERT(s->size() <= s->prompt_size + std::max(s->sampling.max_tokens, 0));
    }
  }));
  EXPECT_FALSE(testing::Test::HasFailure());
}

TEST(Scheduler, GuessesTakeWhatIsLeft) {
  Simulation sim({8, 12}, 40);
  std::vector<Sequence*> decodes;
  for (int i = 0; i < 3; ++i) decodes.push_back(sim.Add({4, 120, -1, true}));
  Sequence* silent = sim.Add({4, 120});
  int64_t steps = 0;
  for (; sim.finished() < 3; ++steps) {
    const auto rows = sim.Step();
    int32_t total = 0;
    for (const ScheduledRows& entry : rows) total += entry.total();
    // Everybody has a row first.
    if (steps > 5 && sim.finished() == 0) {
      EXPECT_EQ(RowsOf(rows, silent), 1);
    }
    EXPECT_LE(total, 12);
  }
  EXPECT_LT(steps, 90);
  EXPECT_GT(sim.right(), 100);
  EXPECT_EQ(sim.scheduler().preemptions(), 0);
}

// Guesses that would need the last free pages are left out: nobody gives way for one.
TEST(Scheduler, GuessesPreemptNobody) {
  int64_t preemptions[2];
  for (const bool speculates : {false, true}) {
    Simulation sim({4, 64}, 8);
    for (int i = 0; i < 4; ++i) sim.Add({16, 30, -1, speculates});
    while (sim.finished() < 4) sim.Step();
    preemptions[speculates ? 1 : 0] = sim.scheduler().preemptions();
    EXPECT_EQ(sim.drafted() > 0, speculates);
  }
  EXPECT_LE(preemptions[1], preemptions[0]);
}

TEST(BatchBuilder, ListsRowsPositionsAndWantedLogits) {
  Simulation sim({8, 64}, 100);
  Sequence* a = sim.Add({20, 1, 2});
  Sequence* b = sim.Add({3, 1, -1});
  a->computed = 17;
  a->slot = {2};
  a->pages = {4, 9};
  b->pages = {5};
  StepBatch step;
  const std::vector<ScheduledRows> rows = {{b, 2}, {a, 3}};
  BuildBatch(rows, &step);
  EXPECT_EQ(step.batch.positions, (std::vector<int32_t>{0, 1, 17, 18, 19}));
  EXPECT_EQ(step.batch.logit_rows, (std::vector<int32_t>{4}));
  EXPECT_EQ(step.batch.slots[1], lora::kBaseModel);
  EXPECT_EQ(step.batch.slots[2], (lora::SlotId{2}));
  ASSERT_EQ(step.batch.sequences.size(), 2u);
  EXPECT_EQ(step.batch.sequences[1].row_begin, 2);
  EXPECT_EQ(step.batch.sequences[1].rows, 3);
  EXPECT_EQ(step.batch.sequences[1].position_begin, 17);
  EXPECT_EQ(step.batch.sequences[1].pages[1], 9);
  ASSERT_EQ(step.uses.size(), 1u);
  EXPECT_TRUE(step.uses[0].samples);
  EXPECT_EQ(step.uses[0].position, 19);
  a->pages.clear();
  a->computed = 0;
  b->pages.clear();
}

TEST(Sequence, AsksForPromptRowsOnce) {
  Request request;
  request.prompt = {1, 2, 3, 4};
  request.sampling.echo = true;
  request.sampling.logprobs = 0;
  request.sampling.max_tokens = 0;
  StopChecker checker(request.sampling, {}, nullptr);
  Sequence s(std::move(request), std::move(checker));
  EXPECT_TRUE(s.WantsPromptRow(0));
  EXPECT_TRUE(s.WantsPromptRow(2));
  EXPECT_FALSE(s.WantsPromptRow(3));  // would choose a fifth token
  EXPECT_FALSE(s.SamplesAt(3));       // which no one asked for
  s.prompt_infos.resize(3);           // rows 0 and 1 are answered
  EXPECT_FALSE(s.WantsPromptRow(1));  // so a recompute does not ask again
  EXPECT_TRUE(s.WantsPromptRow(2));
  s.prompt_done = true;
  s.prompt_infos.clear();
  EXPECT_FALSE(s.WantsPromptRow(0));
}

}  // namespace
}  // namespace lorica::engine
