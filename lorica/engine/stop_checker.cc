#include "lorica/engine/stop_checker.h"

#include <algorithm>
#include <utility>

namespace lorica::engine {

StopStrings::StopStrings(std::vector<std::string> stops, bool include_stop)
    : stops_(std::move(stops)), include_stop_(include_stop) {}

StopStrings::Outcome StopStrings::Push(std::string_view text, bool may_stop) {
  if (text.empty()) return {};
  const size_t old_size = held_.size();
  held_ += text;
  if (may_stop) {
    size_t begin = std::string::npos;
    const std::string* matched = nullptr;
    for (const std::string& stop : stops_) {
      // Only what the new text completes: a match that ended earlier was judged then.
      const size_t from = old_size + 1 > stop.size() ? old_size + 1 - stop.size() : 0;
      const size_t found = held_.find(stop, from);
      if (found < begin) {
        begin = found;
        matched = &stop;
      }
    }
    if (matched != nullptr) {
      Outcome outcome;
      outcome.text = held_.substr(0, begin + (include_stop_ ? matched->size() : 0));
      outcome.matched = *matched;
      held_.clear();
      return outcome;
    }
  }
  size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, n))) keep = n;
    }
  }
  Outcome outcome;
  outcome.text = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return outcome;
}

std::string StopStrings::Flush() { return std::exchange(held_, std::string()); }

StopChecker::StopChecker(const SamplingParams& params, std::vector<int32_t> eos_ids,
                         std::shared_ptr<const formats::Tokenizer> tokenizer)
    : ending_tokens_(params.stop_token_ids),
      stop_token_ids_(params.stop_token_ids),
      min_tokens_(params.min_tokens),
      max_tokens_(params.max_tokens),
      include_stop_(params.include_stop),
      tokenizer_(std::move(tokenizer)),
      strings_(params.stop, params.include_stop) {
  std::sort(stop_token_ids_.begin(), stop_token_ids_.end());
  if (!params.ignore_eos) {
    ending_tokens_.insert(ending_tokens_.end(), eos_ids.begin(), eos_ids.end());
  }
  std::sort(ending_tokens_.begin(), ending_tokens_.end());
  ending_tokens_.erase(std::unique(ending_tokens_.begin(), ending_tokens_.end()),
                       ending_tokens_.end());
}

StopChecker::Verdict StopChecker::Accept(int32_t token) {
  ++generated_;
  // Token number min_tokens + 1 is the first that may end the answer, as in vLLM.
  const bool may_stop = generated_ > min_tokens_;
  const bool ends = std::binary_search(ending_tokens_.begin(), ending_tokens_.end(), token);
  if (ends && may_stop) {
    const bool named = std::binary_search(stop_token_ids_.begin(), stop_token_ids_.end(), token);
    std::string text = include_stop_ ? strings_.Push(TextOf(token), false).text : std::string();
    return End(FinishReason::kStop, named ? "token_id:" + std::to_string(token) : "",
               std::move(text));
  }
  StopStrings::Outcome outcome = strings_.Push(TextOf(token), may_stop);
  if (!outcome.matched.empty()) {
    // What follows the stop string inside the token, a part of a character perhaps, is dropped.
    return {std::move(outcome.text), FinishReason::kStop, std::move(outcome.matched)};
  }
  if (generated_ >= max_tokens_) return End(FinishReason::kLength, "", std::move(outcome.text));
  return {std::move(outcome.text), FinishReason::kNone, ""};
}

StopChecker::Verdict StopChecker::End(FinishReason finish, std::string reason, std::string text) {
  text += strings_.Push(utf8_.Flush(), false).text;
  text += strings_.Flush();
  return {std::move(text), finish, std::move(reason)};
}

std::string StopChecker::TextOf(int32_t token) {
  if (tokenizer_ == nullptr || tokenizer_->IsSpecial(token)) return {};
  return utf8_.Push(tokenizer_->TokenBytes(token));
}

}  // namespace lorica::engine
