// Op: one instruction being built: issue, checked accesses, then the effect when all were clean.
// Lives within one core_api call.
#pragma once

#include <string>
#include <type_traits>

#include "lorica/kernels/ascend/sim/core.h"

namespace lorica::ascend {

class Op {
 public:
  Op(Core* core, int pipe, const char* name, int line) : core_(core) {
    core->Issue(pipe, name, line);
  }
  // `alignment` 0: that of the memory (1 in GM).
  void Reads(const View& view, const Strip& strip, int64_t alignment = 0) {
    Touch(view, strip, false, alignment);
  }
  void Writes(const View& view, const Strip& strip, int64_t alignment = 0) {
    Touch(view, strip, true, alignment);
  }
  // A limit of the instruction: refused with the sentence when it does not hold. `text` is a
  // string, or a function that makes one (so that none is made when all is well).
  template <typename Text>
  void Require(bool holds, ErrorKind kind, const Text& text) {
    if (holds) return;
    ok_ = false;
    std::string what;
    if constexpr (std::is_invocable_v<const Text&>) {
      what = text();
    } else {
      what = text;
    }
    core_->Error(kind, "%s: %s", core_->Describe(core_->current).c_str(), what.c_str());
  }
  template <typename Text>
  void Limit(bool holds, const Text& text) {
    Require(holds, ErrorKind::kBadArgument, text);
  }
  bool ok() const { return ok_; }
  Instr& instr() { return core_->last(); }
  // The GM side of a transfer, for the timeline; `bytes` are what the path carries.
  void Cost(Path path, int64_t bytes, double cycles = 0) {
    instr().path = path;
    instr().bytes = bytes;
    instr().cycles = static_cast<float>(cycles);
  }
  void Gm(const View& view, const Strip& strip) {
    const GmBuffer* buffer = core_->gm->Find(view.gm + strip.begin);
    if (buffer == nullptr) return;
    instr().gm_buffer = buffer->id;
    instr().gm = strip;
    instr().gm.begin += view.gm - buffer->data;
  }

 private:
  void Touch(const View& view, const Strip& strip, bool write, int64_t alignment) {
    if (!Reachable(view)) return;
    if (alignment == 0) {
      alignment = view.space == Space::kGm ? 1 : core_->memory(view.space).alignment;
    }
    if (!core_->Access(view, strip, write, alignment)) ok_ = false;
  }
  bool Reachable(const View& view) {
    const bool reachable =
        view.space == Space::kGm || (view.space == Space::kUb ? core_->vector : core_->cube);
    if (!reachable) {
      Require(false, ErrorKind::kNoPath,
              std::string(SpaceName(view.space)) + " belongs to the other kind of core");
    }
    return reachable;
  }

  Core* core_;
  bool ok_ = true;
};

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }
// GM moves in lines: a short piece costs a whole one.
constexpr int64_t kGmLine = 128;

}  // namespace lorica::ascend
