// Sequence: one request on its way through the engine: its tokens, how far their K and V are
// computed, the pages that hold them, and what its answer still needs. Made by Submit on the
// caller's thread; from the inbox on the engine thread alone owns it.
//
//            Submit             slot found,          last token, stop,
//   (new) ------------> kWaiting ------------> kRunning ------------> kFinished
//                        |    ^   pages taken    |                     ^   ^
//         adapter not hot|    | hot              | pages taken back    |   |
//                        v    |                  | (preempted)         |   |
//               kAwaitingAdapter                 '---> kWaiting        |   |
//                        |            cancelled, failed                |   |
//                        '---------------------------------------------'---'
//
// A preempted sequence keeps its tokens and its sampling state; its K and V are recomputed, to the
// same bits, when it is admitted again.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lorica/engine/drafter.h"
#include "lorica/engine/kv_identity.h"
#include "lorica/engine/page_keys.h"
#include "lorica/engine/request.h"
#include "lorica/engine/stop_checker.h"
#include "lorica/engine/token_counts.h"
#include "lorica/lora/registry.h"
#include "lorica/lora/token_map.h"

namespace lorica::engine {

enum class SequenceState : uint8_t { kWaiting, kAwaitingAdapter, kRunning, kFinished };
std::string_view SequenceStateName(SequenceState state);

// What the adapter's tiers know of a sequence: nothing (the base model, or not arrived yet), that
// it waits for a slot, or that it holds one.
enum class AdapterUse : uint8_t { kNone, kWaits, kHolds };

struct Sequence {
  Sequence(Request request, StopChecker checker);
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  // Fixed at Submit.
  RequestId id;  // ascending by arrival: the order of service
  SamplingParams sampling;
  uint64_t seed = 0;
  int32_t prompt_size = 0;
  lora::AdapterRef adapter;
  double adapter_weight = 1.0;
  KvIdentity identity;
  EventSink sink;
  std::chrono::steady_clock::time_point submitted;

  // The scheduler's.
  SequenceState state = SequenceState::kWaiting;
  lora::SlotId slot = lora::kBaseModel;  // while kRunning
  std::vector<int32_t> pages;            // by position / 16; empty unless kRunning
  uint64_t last_turn = 0;                // as a decode: whose is longest ago is next
  int32_t preemptions = 0;
  // Of its leading full pages; empty when it takes no part in reuse.
  std::optional<PageKeys> page_keys;

  AdapterUse adapter_use = AdapterUse::kNone;  // the engine's

  // Guesses at what comes next; absent without --speculate. `draft` is of the step at hand.
  std::optional<Drafter> drafter;
  std::span<const int32_t> draft;

  // Progress.
  std::vector<int32_t> tokens;  // prompt, then generated
  int32_t computed = 0;         // leading tokens whose K and V are in `pages`
  StopChecker checker;
  TokenCounts counts;
  // Of the prompt, with echo: kept over preemption, so that no row is asked for twice.
  std::vector<TokenInfo> prompt_infos;
  bool prompt_done = false;  // computed once, and answered

  int32_t size() const { return static_cast<int32_t>(tokens.size()); }
  int32_t pending() const { return size() - computed; }
  bool wants_prompt_logprobs() const { return sampling.echo && sampling.logprobs.has_value(); }
  // Whether the row of `position` is to be answered with the log-probability of the token after
  // it, a prompt token.
  bool WantsPromptRow(int32_t position) const;
  // Whether the row of `position` chooses the next token.
  bool SamplesAt(int32_t position) const;
};

}  // namespace lorica::engine
