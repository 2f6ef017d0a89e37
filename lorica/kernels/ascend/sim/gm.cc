#include "lorica/kernels/ascend/sim/gm.h"

#include <algorithm>

#include "lorica/kernels/ascend/sim/core.h"

namespace lorica::ascend {

void GlobalMemory::Add(std::string name, void* data, int64_t bytes, GmOptions options) {
  auto buffer = std::make_unique<GmBuffer>();
  buffer->name = std::move(name);
  buffer->data = static_cast<uint8_t*>(data);
  buffer->bytes = bytes;
  buffer->id = next_id_++;
  buffer->in_l2 = options.in_l2;
  if (!options.initialised) buffer->shadow.assign(static_cast<size_t>(bytes), 1);
  by_id_[buffer->id] = buffer.get();
  buffers_[reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(bytes)] = std::move(buffer);
  last_ = nullptr;
}

void GlobalMemory::Remove(const void* data) {
  last_ = nullptr;
  for (auto at = buffers_.begin(); at != buffers_.end(); ++at) {
    if (at->second->data != data) continue;
    by_id_.erase(at->second->id);
    buffers_.erase(at);
    return;
  }
}

void GlobalMemory::BeginLaunch() {
  for (auto& [end, buffer] : buffers_) {
    buffer->reads.clear();
    buffer->writes.clear();
    buffer->resident.assign(static_cast<size_t>(buffer->bytes / 512 + 1), buffer->in_l2);
  }
}

GmBuffer* GlobalMemory::Find(const uint8_t* address) {
  if (last_ != nullptr && address >= last_->data && address < last_->data + last_->bytes) {
    return last_;
  }
  const auto at = buffers_.upper_bound(reinterpret_cast<uintptr_t>(address));
  if (at == buffers_.end() || address < at->second->data) return nullptr;
  last_ = at->second.get();
  return last_;
}

GmBuffer* GlobalMemory::ById(int32_t id) {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? nullptr : at->second;
}

namespace {

// A dense piece of an access.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
  const GmAccess* access = nullptr;
};

// Long pieces are cut, so that the search back from a write stays short.
constexpr int64_t kLongestInterval = 4096;

void Expand(const std::vector<GmAccess>& accesses, std::vector<Interval>* out) {
  for (const GmAccess& access : accesses) {
    const Strip& s = access.strip;
    const bool dense = s.count == 1 || s.step == s.piece;
    const int64_t pieces = dense ? 1 : s.count;
    for (int64_t i = 0; i < pieces; ++i) {
      const int64_t end = dense ? s.end() : s.begin + i * s.step + s.piece;
      for (int64_t at = s.begin + i * s.step; at < end; at += kLongestInterval) {
        out->push_back({at, std::min(end, at + kLongestInterval), &access});
      }
    }
  }
}

class RaceChecker {
 public:
  RaceChecker(const std::vector<std::unique_ptr<Core>>& cores, const GmBuffer& buffer,
              SimReport* report)
      : cores_(cores), buffer_(buffer), report_(report) {}

  void Run() {
    std::vector<Interval> writes;
    std::vector<Interval> all;
    Expand(buffer_.writes, &writes);
    all = writes;
    Expand(buffer_.reads, &all);
    const auto by_begin = [](const Interval& a, const Interval& b) { return a.begin < b.begin; };
    std::sort(writes.begin(), writes.end(), by_begin);
    std::sort(all.begin(), all.end(), by_begin);
    // For each write, whatever begins before its end and ends after its start.
    for (const Interval& write : writes) {
      auto at = std::lower_bound(all.begin(), all.end(), write.begin - kLongestInterval,
                                 [](const Interval& a, int64_t v) { return a.begin < v; });
      for (; at != all.end() && at->begin < write.end && found_ < kMostPerBuffer; ++at) {
        if (at->end > write.begin && at->access != write.access) Pair(write, *at);
      }
    }
  }

 private:
  static constexpr int kMostPerBuffer = 8;

  const Clock& ClockOf(const GmAccess& access) const {
    return cores_[static_cast<size_t>(access.core)]->clock_log[access.clock];
  }
  // `later` knows `earlier` to be complete.
  bool Knows(const GmAccess& later, const GmAccess& earlier) const {
    const Clock& clock = ClockOf(later);
    if (later.core == earlier.core) return clock.own[earlier.pipe] >= earlier.index;
    if (clock.others == nullptr) return false;
    return (*clock.others)[static_cast<size_t>(earlier.core) * kPipes + earlier.pipe] >=
           earlier.index;
  }
  static bool IsFloat(Type type) {
    return type == Type::kHalf || type == Type::kBf16 || type == Type::kFloat;
  }

  void Pair(const Interval& write, const Interval& other) {
    const GmAccess& w = *write.access;
    const GmAccess& o = *other.access;
    if (o.write && &o < &w) return;  // seen from the other side
    if (w.core == o.core) {
      SameCore(write, other);
      return;
    }
    if (Knows(w, o) || Knows(o, w)) return;
    const bool atomics = w.atomic && o.atomic;
    if (atomics && !IsFloat(w.atomic_type)) return;
    Report(atomics ? ErrorKind::kFloatAtomicOrder : ErrorKind::kGmRace, write, other);
  }

  void SameCore(const Interval& write, const Interval& other) {
    const GmAccess& w = *write.access;
    const GmAccess& o = *other.access;
    if (w.instr == o.instr) return;
    if (w.atomic && o.atomic) return;  // one core's atomics keep their order
    const GmAccess& first = w.instr < o.instr ? w : o;
    const GmAccess& second = w.instr < o.instr ? o : w;
    if (Knows(second, first)) return;
    // A pipe starts in order and reads before it writes; the scalar unit waits for its reads.
    if (!first.write && (first.pipe == second.pipe || first.pipe == PIPE_S)) return;
    if (first.pipe == PIPE_S && second.pipe == PIPE_S) return;
    const ErrorKind kind = !first.write   ? ErrorKind::kWriteAfterRead
                           : second.write ? ErrorKind::kWriteAfterWrite
                                          : ErrorKind::kReadAfterWrite;
    Report(kind, write, other);
  }

  void Report(ErrorKind kind, const Interval& a, const Interval& b) {
    ++found_;
    ++report_->error_count;
    if (report_->errors.size() >= SimReport::kMaxErrors) return;
    const GmAccess& x = *a.access;
    const GmAccess& y = *b.access;
    report_->errors.push_back(
        {kind, x.core,
         std::string(ErrorKindName(kind)) + " of GM " + buffer_.name + " [" +
             std::to_string(std::max(a.begin, b.begin)) + ", " +
             std::to_string(std::min(a.end, b.end)) + "): core " + std::to_string(x.core) + " " +
             cores_[static_cast<size_t>(x.core)]->Describe(x.instr) + " and core " +
             std::to_string(y.core) + " " + cores_[static_cast<size_t>(y.core)]->Describe(y.instr) +
             " are in no order"});
  }

  const std::vector<std::unique_ptr<Core>>& cores_;
  const GmBuffer& buffer_;
  SimReport* report_;
  int found_ = 0;
};

}  // namespace

void CheckGmRaces(GlobalMemory* gm, const std::vector<std::unique_ptr<Core>>& cores,
                  SimReport* report) {
  for (auto& [end, buffer] : gm->buffers()) {
    if (!buffer->writes.empty()) RaceChecker(cores, *buffer, report).Run();
  }
}

}  // namespace lorica::ascend
