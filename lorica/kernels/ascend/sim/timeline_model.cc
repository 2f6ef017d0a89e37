// A discrete-event replay. Per core the scalar unit issues in order, each pipe works in order, a
// wait holds its pipe until the set is done, and transfers overlap their latency. Transfers of GM
// share the chip's memory and L2 rates: whenever one starts or ends, all rates are set anew.
#include "lorica/kernels/ascend/sim/timeline_model.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <queue>

namespace lorica::ascend {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct PipeState {
  std::deque<uint32_t> queue;  // issued, not started
  double free_at = 0;          // kNever while a transfer of GM runs
  double all_done = 0;         // completion of everything so far
};

struct CoreState {
  const Core* core = nullptr;
  size_t next = 0;  // to issue
  double scalar_free = 0;
  std::array<PipeState, kPipes> pipes;
  std::vector<double> done;  // completion of each instruction
};

// A running transfer of GM.
struct Transfer {
  int32_t core = 0;
  int pipe = 0;
  uint32_t instr = 0;
  double start = 0;
  double left = 0;      // bytes
  double own_rate = 0;  // of its path
  double memory_share = 0;
  double rate = 0;
  double latency = 0;
};

class Model {
 public:
  Model(const LaunchOptions& options, const SocSpec& soc, const std::vector<Core*>& cores,
        const std::vector<CrossCore::Sets>& waits, GlobalMemory* gm)
      : options_(options), soc_(soc), waits_(waits), gm_(gm) {
    for (const Core* core : cores) {
      CoreState& state = states_.emplace_back();
      state.core = core;
      state.done.assign(core->instrs.size(), kNever);
      CoreTime time;
      time.vector_core = !core->cube;
      line_.cores.push_back(time);
    }
  }

  Timeline Run() {
    for (size_t c = 0; c < states_.size(); ++c) Advance(c);
    while (true) {
      const double next_event = events_.empty() ? kNever : events_.top().first;
      double next_transfer = kNever;
      size_t which = 0;
      for (size_t i = 0; i < transfers_.size(); ++i) {
        const double end = now_ + transfers_[i].left / transfers_[i].rate;
        if (end < next_transfer) {
          next_transfer = end;
          which = i;
        }
      }
      if (next_event == kNever && next_transfer == kNever) break;
      const double to = std::min(next_event, next_transfer);
      for (Transfer& transfer : transfers_) transfer.left -= transfer.rate * (to - now_);
      now_ = std::max(now_, to);
      size_t core;
      if (next_transfer <= next_event) {
        core = static_cast<size_t>(transfers_[which].core);
        Finish(which);
      } else {
        core = events_.top().second;
        events_.pop();
      }
      Advance(core);
      while (cross_changed_) {
        cross_changed_ = false;
        for (size_t c = 0; c < states_.size(); ++c) Advance(c);
      }
    }
    Summarise();
    return std::move(line_);
  }

 private:
  double Rate(Path path) const {
    switch (path) {
      case Path::kGmToL1:
        return soc_.gm_to_l1 * options_.mte2_rate_scale;
      case Path::kGmToUb:
        return soc_.gm_to_ub * options_.mte2_rate_scale;
      case Path::kUbToGm:
        return soc_.ub_to_gm;
      case Path::kL1ToL0A:
        return soc_.l1_to_l0a;
      case Path::kL1ToL0B:
        return soc_.l1_to_l0b;
      case Path::kL0cToL1:
        return soc_.l0c_to_l1;
      case Path::kL0cToGm:
        return soc_.l0c_to_gm;
      case Path::kL1ToGm:
        return soc_.l1_to_gm;
      case Path::kL0cToUb:
        return soc_.l0c_to_ub;
      case Path::kUbToL1:
        return soc_.ub_to_l1;
      case Path::kNone:
        break;
    }
    return 1;
  }

  void Wake(double at, size_t core) { events_.push({at, core}); }

  // When the set that a wait takes is done; kNever when that is not known yet.
  double SetDone(const Instr& wait) const {
    if (wait.dep_core == CrossCore::kMany) {
      double latest = 0;
      for (const auto& [core, instr] : waits_[static_cast<size_t>(wait.dep_instr)]) {
        latest =
            std::max(latest, states_[static_cast<size_t>(core)].done[static_cast<size_t>(instr)]);
      }
      return latest;
    }
    if (wait.dep_core < 0) return now_;
    return states_[static_cast<size_t>(wait.dep_core)].done[static_cast<size_t>(wait.dep_instr)];
  }

  // Whatever core `c` can do now.
  void Advance(size_t c) {
    CoreState& state = states_[c];
    bool progress = true;
    while (progress) {
      progress = Issue(c, &state);
      for (int p = PIPE_V; p < kPipes; ++p) {
        while (StartNext(c, &state, p)) progress = true;
      }
    }
  }

  bool Issue(size_t c, CoreState* state) {
    bool progress = false;
    const std::vector<Instr>& instrs = state->core->instrs;
    while (state->next < instrs.size() && state->scalar_free <= now_) {
      const Instr& instr = instrs[state->next];
      double cost = soc_.issue_cost * options_.issue_cost_scale;
      if (instr.pipe == PIPE_S) {
        if (!Scalar(c, state, instr, &cost)) return progress;
      } else {
        PipeState& pipe = state->pipes[instr.pipe];
        if (pipe.queue.size() >= kQueueDepth) return progress;
        pipe.queue.push_back(static_cast<uint32_t>(state->next));
      }
      ++state->next;
      state->scalar_free = now_ + cost;
      if (cost > 0) Wake(state->scalar_free, c);
      progress = true;
    }
    return progress;
  }

  // One instruction of the scalar unit; false: it has to wait.
  bool Scalar(size_t c, CoreState* state, const Instr& instr, double* cost) {
    double ready = now_;
    if (instr.kind == Instr::Kind::kWait) ready = SetDone(instr);
    if (instr.all_pipes) {
      for (int p = PIPE_V; p < kPipes; ++p) {
        const PipeState& pipe = state->pipes[static_cast<size_t>(p)];
        if (!pipe.queue.empty() || pipe.free_at == kNever) return false;
        ready = std::max({ready, pipe.free_at, pipe.all_done});
      }
    }
    if (ready > now_) {
      if (ready != kNever) Wake(ready, c);
      return false;
    }
    if (instr.kind == Instr::Kind::kWork) {
      *cost = instr.cycles;
      line_.cores[c].busy[PIPE_S] += *cost;
      Record(c, instr, now_, now_ + *cost);
    }
    state->done[state->next] = now_ + *cost;
    if (instr.cross) cross_changed_ = true;
    return true;
  }

  bool StartNext(size_t c, CoreState* state, int p) {
    PipeState& pipe = state->pipes[static_cast<size_t>(p)];
    if (pipe.queue.empty() || pipe.free_at > now_) return false;
    const uint32_t number = pipe.queue.front();
    const Instr& instr = state->core->instrs[number];
    double ready = now_;
    if (instr.kind == Instr::Kind::kWait) ready = SetDone(instr);
    if (instr.kind == Instr::Kind::kBarrier) ready = std::max(now_, pipe.all_done);
    if (ready > now_) {
      if (ready != kNever) Wake(ready, c);
      return false;
    }
    pipe.queue.pop_front();
    if (instr.kind == Instr::Kind::kWork && instr.gm_buffer >= 0) {
      StartTransfer(c, number, instr);
      pipe.free_at = kNever;
      return false;
    }
    if (instr.kind == Instr::Kind::kWork) {
      const double busy =
          instr.cycles +
          (instr.path == Path::kNone ? 0.0 : static_cast<double>(instr.bytes) / Rate(instr.path));
      pipe.free_at = now_ + busy;
      state->done[number] = pipe.free_at + (p == PIPE_M || p == PIPE_V ? 0 : soc_.local_latency);
      pipe.all_done = std::max(pipe.all_done, state->done[number]);
      line_.cores[c].busy[static_cast<size_t>(p)] += busy;
      Record(c, instr, now_, pipe.free_at);
      Wake(pipe.free_at, c);
      return busy == 0;
    }
    // A set fires when all before it are done; it does not hold its pipe.
    state->done[number] = (instr.kind == Instr::Kind::kSet ? std::max(now_, pipe.all_done) : now_) +
                          (instr.cross && instr.kind == Instr::Kind::kSet
                               ? soc_.cross_flag_cost * options_.cross_flag_scale
                               : soc_.flag_cost);
    Wake(state->done[number], c);
    if (instr.cross) cross_changed_ = true;
    return true;
  }

  void StartTransfer(size_t c, uint32_t number, const Instr& instr) {
    const bool write = instr.pipe == PIPE_MTE3 || instr.pipe == PIPE_FIX;
    Transfer transfer;
    transfer.core = static_cast<int32_t>(c);
    transfer.pipe = instr.pipe;
    transfer.instr = number;
    transfer.start = now_;
    transfer.left = std::max<double>(1, static_cast<double>(instr.bytes));
    transfer.own_rate = Rate(instr.path);
    const double missing = TouchLines(instr, write);
    transfer.memory_share = write ? 0 : missing;
    const double l2_latency = soc_.l2_latency * options_.l2_latency_scale;
    transfer.latency =
        write || missing == 0 ? l2_latency : soc_.memory_latency * options_.memory_latency_scale;
    transfers_.push_back(transfer);
    SetRates();
  }

  // Bytes that come from memory for one of the transfer, whole lines that L2 does not hold; it
  // holds them afterwards. More than one where the transfer is of short pieces.
  double TouchLines(const Instr& instr, bool write) {
    GmBuffer* buffer = gm_->ById(instr.gm_buffer);
    const Strip& s = instr.gm;
    int64_t missing = 0;
    for (int64_t i = 0; i < s.count; ++i) {
      const int64_t begin = s.begin + i * s.step;
      for (int64_t l = begin / kL2Line; l <= (begin + s.piece - 1) / kL2Line; ++l) {
        if (buffer->resident[static_cast<size_t>(l)]) continue;
        ++missing;
        buffer->resident[static_cast<size_t>(l)] = true;
        l2_order_.push_back({buffer, l});
        if (static_cast<int64_t>(l2_order_.size()) * kL2Line > soc_.l2) {
          l2_order_.front().first->resident[static_cast<size_t>(l2_order_.front().second)] = false;
          l2_order_.pop_front();
        }
      }
    }
    const int64_t bytes = s.piece * s.count;
    const auto filled = static_cast<double>(missing * kL2Line);
    const double share = bytes == 0 ? 0 : filled / static_cast<double>(bytes);
    if (write) {
      line_.written_bytes += bytes;
    } else {
      line_.l2_bytes += bytes;
      line_.memory_bytes += missing * kL2Line;
    }
    return share;
  }

  void SetRates() {
    double memory = 0;
    double l2 = 0;
    for (const Transfer& transfer : transfers_) {
      memory += transfer.own_rate * transfer.memory_share;
      l2 += transfer.own_rate;
    }
    const double memory_scale = std::min(1.0, memory > 0 ? soc_.memory_rate / memory : 1.0);
    const double l2_scale = std::min(1.0, l2 > 0 ? soc_.l2_rate / l2 : 1.0);
    for (Transfer& transfer : transfers_) {
      const double part = std::min(1.0, transfer.memory_share);
      const double slow = part / memory_scale + (1 - part);
      transfer.rate = transfer.own_rate * std::min(l2_scale, 1 / slow);
    }
  }

  void Finish(size_t which) {
    const Transfer transfer = transfers_[which];
    transfers_.erase(transfers_.begin() + static_cast<int64_t>(which));
    SetRates();
    const size_t c = static_cast<size_t>(transfer.core);
    CoreState& state = states_[c];
    PipeState& pipe = state.pipes[static_cast<size_t>(transfer.pipe)];
    pipe.free_at = now_;
    state.done[transfer.instr] = now_ + transfer.latency;
    pipe.all_done = std::max(pipe.all_done, state.done[transfer.instr]);
    line_.cores[c].busy[static_cast<size_t>(transfer.pipe)] += now_ - transfer.start;
    Record(c, state.core->instrs[transfer.instr], transfer.start, now_);
  }

  void Record(size_t c, const Instr& instr, double begin, double end) {
    if (!options_.trace) return;
    line_.events.push_back({static_cast<int32_t>(c), static_cast<int8_t>(instr.pipe), instr.name,
                            instr.line, begin, end, instr.bytes});
  }

  void Summarise() {
    for (size_t c = 0; c < states_.size(); ++c) {
      double end = states_[c].scalar_free;
      for (const PipeState& pipe : states_[c].pipes) end = std::max(end, pipe.all_done);
      line_.cores[c].cycles = end;
      if (end > line_.cycles) {
        line_.cycles = end;
        line_.busy = line_.cores[c].busy;
      }
    }
    line_.memory_floor_cycles =
        static_cast<double>(line_.memory_bytes + line_.written_bytes) / soc_.memory_rate;
  }

  static constexpr size_t kQueueDepth = 32;
  static constexpr int64_t kL2Line = 512;

  const LaunchOptions& options_;
  const SocSpec& soc_;
  const std::vector<CrossCore::Sets>& waits_;
  GlobalMemory* gm_;
  double now_ = 0;
  bool cross_changed_ = false;
  std::vector<CoreState> states_;
  std::vector<Transfer> transfers_;
  std::deque<std::pair<GmBuffer*, int64_t>> l2_order_;
  using Event = std::pair<double, size_t>;
  std::priority_queue<Event, std::vector<Event>, std::greater<Event>> events_;
  Timeline line_;
};

}  // namespace

Timeline ModelTime(const LaunchOptions& options, const SocSpec& soc,
                   const std::vector<Core*>& cores, const std::vector<CrossCore::Sets>& waits,
                   GlobalMemory* gm) {
  return Model(options, soc, cores, waits, gm).Run();
}

}  // namespace lorica::ascend
