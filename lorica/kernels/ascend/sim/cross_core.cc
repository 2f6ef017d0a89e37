#include "lorica/kernels/ascend/sim/cross_core.h"

#include <memory>

namespace lorica::ascend {

CrossCore::CrossCore(std::vector<Core*> cores) {
  members_ = std::vector<Member>(cores.size());
  for (size_t i = 0; i < cores.size(); ++i) members_[i].core = cores[i];
}

void CrossCore::Begin(const Core& core) {
  std::unique_lock<std::mutex> lock(mutex_);
  turn_changed_.wait(lock, [&] { return turn_ == static_cast<size_t>(core.id); });
}

void CrossCore::End(const Core& core) {
  std::unique_lock<std::mutex> lock(mutex_);
  members_[static_cast<size_t>(core.id)].state = State::kDone;
  PassTurn(static_cast<size_t>(core.id), &lock);
}

bool CrossCore::CanRun(const Member& member) const {
  switch (member.state) {
    case State::kReady:
      return true;
    case State::kDone:
      return false;
    case State::kBlocked:
      break;
  }
  return aborted_ || !member.counters[static_cast<size_t>(member.waits_for)].empty();
}

void CrossCore::PassTurn(size_t from, std::unique_lock<std::mutex>*) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    for (size_t step = 1; step <= members_.size(); ++step) {
      const size_t next = (from + step) % members_.size();
      if (!CanRun(members_[next])) continue;
      turn_ = next;
      turn_changed_.notify_all();
      return;
    }
    bool all_done = true;
    for (Member& member : members_) {
      if (member.state != State::kBlocked) continue;
      all_done = false;
      member.core->Error(ErrorKind::kDeadlock, "%s waits for cross-core flag %d for ever",
                         member.core->Describe(member.core->current).c_str(), member.waits_for);
    }
    if (all_done) return;
    aborted_ = true;
  }
}

Clock CrossCore::Export(const Core& core, int pipe) const {
  Clock clock = core.Completed(pipe);
  std::vector<uint32_t> all(members_.size() * kPipes, 0);
  if (clock.others != nullptr) all = *clock.others;
  for (size_t p = 0; p < kPipes; ++p) {
    uint32_t& known = all[static_cast<size_t>(core.id) * kPipes + p];
    known = std::max(known, clock.own[p]);
  }
  Clock out;
  out.others = std::make_shared<const std::vector<uint32_t>>(std::move(all));
  return out;
}

void CrossCore::Complete(Core* setter, int mode, int id, const std::vector<Member*>& group,
                         const std::vector<Member*>& targets) {
  const size_t m = static_cast<size_t>(mode);
  const size_t flag = static_cast<size_t>(id);
  for (Member* member : group) {
    if (member->pending[m][flag].empty()) return;
  }
  Arrival joined;
  for (Member* member : group) {
    Arrival& arrival = member->pending[m][flag].front();
    joined.clock.JoinOthers(arrival.clock.others);
    joined.sets.insert(joined.sets.end(), arrival.sets.begin(), arrival.sets.end());
    member->pending[m][flag].pop_front();
  }
  for (Member* target : targets) {
    if (target->counters[flag].size() >= kCounterMax) {
      setter->Error(ErrorKind::kCounterOverflow,
                    "%s: the counter of cross-core flag %d on core %d passes 15",
                    setter->Describe(setter->current).c_str(), id, target->core->id);
      continue;
    }
    target->counters[flag].push_back(joined);
  }
}

void CrossCore::Set(Core* core, int mode, int pipe, int id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Member& self = members_[static_cast<size_t>(core->id)];
  std::deque<Arrival>& own = self.pending[static_cast<size_t>(mode)][static_cast<size_t>(id)];
  if (own.size() >= kCounterMax) {
    core->Error(ErrorKind::kCounterOverflow, "%s: cross-core flag %d set 16 times unanswered",
                core->Describe(core->current).c_str(), id);
    return;
  }
  own.push_back({Export(*core, pipe), {{core->id, static_cast<int32_t>(core->current)}}});
  std::vector<Member*> group;
  std::vector<Member*> targets;
  for (Member& member : members_) {
    const bool same_kind = member.core->cube == core->cube;
    const bool same_block = member.core->block == core->block;
    if (mode == 0 && same_kind) group.push_back(&member);
    if (mode == 1 && same_kind && same_block) group.push_back(&member);
    if (mode == 2 && same_block && (core->cube ? &member == &self : same_kind)) {
      group.push_back(&member);
    }
    if (mode == 2 && same_block && !same_kind) targets.push_back(&member);
  }
  Complete(core, mode, id, group, mode == 2 ? targets : group);
}

void CrossCore::Wait(Core* core, int pipe, int id) {
  std::unique_lock<std::mutex> lock(mutex_);
  Member& self = members_[static_cast<size_t>(core->id)];
  std::deque<Arrival>& counter = self.counters[static_cast<size_t>(id)];
  if (counter.empty() && !aborted_) {
    self.state = State::kBlocked;
    self.waits_for = id;
    PassTurn(static_cast<size_t>(core->id), &lock);
    turn_changed_.wait(lock, [&] { return turn_ == static_cast<size_t>(core->id); });
    self.state = State::kReady;
  }
  if (counter.empty()) return;  // after a deadlock
  Arrival arrival = std::move(counter.front());
  counter.pop_front();
  Clock learnt = arrival.clock;
  for (size_t p = 0; p < kPipes; ++p) {
    learnt.own[p] = (*learnt.others)[static_cast<size_t>(core->id) * kPipes + p];
  }
  core->Learn(pipe, learnt);
  core->last().dep_core = kMany;
  core->last().dep_instr = static_cast<int32_t>(waits_.size());
  waits_.push_back(std::move(arrival.sets));
}

void CrossCore::ReportLeftOver(SimReport*) {
  if (aborted_) return;
  for (Member& member : members_) {
    for (size_t id = 0; id < kIds; ++id) {
      size_t left = member.counters[id].size();
      for (const auto& mode : member.pending) left += mode[id].size();
      if (left == 0) continue;
      member.core->Error(ErrorKind::kFlagLeftOver,
                         "cross-core flag %zu of core %d is still set %zu times at the end", id,
                         member.core->id, left);
    }
  }
}

}  // namespace lorica::ascend
