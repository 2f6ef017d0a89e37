// Core::Hazards: an access of a local memory against the last write and the last reads of each
// granule, by what the accessing pipe knows to be complete.
#include <algorithm>

#include "lorica/kernels/ascend/sim/core.h"

namespace lorica::ascend {

// An earlier access of `pipe` that is not known to be complete: is it in order all the same?
bool Core::Allowed(int pipe, uint32_t index, bool earlier_write, ErrorKind* kind) {
  const Instr& now = instrs[current];
  const Instr& before = instrs[by_pipe[static_cast<size_t>(pipe)][index - 1]];
  if (pipe == now.pipe) {
    // A pipe starts in order and reads before it writes.
    if (!earlier_write || before.index == now.index) return true;
    // The scalar unit is one program.
    if (pipe == PIPE_S) return true;
    if (pipe == PIPE_M) {
      if (!before.small_mmad) return true;
      *kind = ErrorKind::kSmallMmad;
      return false;
    }
    return pipe == PIPE_V && auto_sync;
  }
  // The unit flag hands L0C over between the cube and Fixpipe, fractal by fractal.
  if (before.unit_flag != 0 && now.unit_flag != 0 &&
      ((pipe == PIPE_M && now.pipe == PIPE_FIX) || (pipe == PIPE_FIX && now.pipe == PIPE_M))) {
    Clock learnt;
    learnt.own[static_cast<size_t>(pipe)] = index;
    Learn(now.pipe, learnt);
    return true;
  }
  const bool scalar = pipe == PIPE_S || now.pipe == PIPE_S;
  const int other = pipe == PIPE_S ? now.pipe : pipe;
  if (auto_sync && scalar && (other == PIPE_V || other == PIPE_MTE2 || other == PIPE_MTE3)) {
    Clock learnt;
    learnt.own[static_cast<size_t>(pipe)] = index;
    Learn(now.pipe, learnt);
    return true;
  }
  return false;
}

// An accumulating Mmad needs a literal barrier after a small one, even where flags go round: so the
// vendor's rule is worded, and what a flag of the cube says about L0C is not documented.
bool Core::BarrierMissing(const Granule& granule) const {
  if (granule.write_pipe != PIPE_M || granule.write_index <= cube_barrier) return false;
  const Instr& before = instrs[by_pipe[PIPE_M][granule.write_index - 1]];
  return before.small_mmad && before.index != instrs[current].index;
}

void Core::ReportHazard(const View& view, int64_t granule, ErrorKind kind, int pipe,
                        uint32_t index) {
  const LocalMemory& memory = memories[static_cast<size_t>(view.space)];
  const uint32_t before = by_pipe[static_cast<size_t>(pipe)][index - 1];
  Error(kind, "%s of %s [%lld, %lld): %s is not ordered after %s", ErrorKindName(kind), memory.name,
        static_cast<long long>(granule << memory.shift),
        static_cast<long long>((granule + 1) << memory.shift), Describe(current).c_str(),
        Describe(before).c_str());
}

bool Core::Hazards(const View& view, const Strip& strip, bool write) {
  LocalMemory& memory = memories[static_cast<size_t>(view.space)];
  const int pipe = instrs[current].pipe;
  const uint32_t own = instrs[current].index;
  bool clean = true;
  for (int64_t i = 0; i < strip.count; ++i) {
    const int64_t begin = view.offset + strip.begin + i * strip.step;
    const int64_t last = begin + strip.piece - 1;
    memory.high_water = std::max(memory.high_water, last + 1);
    for (int64_t g = begin >> memory.shift; g <= last >> memory.shift; ++g) {
      Granule& granule = memory.granules[static_cast<size_t>(g)];
      const std::array<uint32_t, kPipes>& known = clocks[static_cast<size_t>(pipe)].own;
      // Readers first: of two reasons, the reader is the one to wait for.
      for (int q = 0; write && q < kPipes && clean; ++q) {
        const uint32_t index = granule.read_index[static_cast<size_t>(q)];
        if (index <= known[static_cast<size_t>(q)]) continue;
        ErrorKind kind = ErrorKind::kWriteAfterRead;
        if (!Allowed(q, index, false, &kind)) {
          ReportHazard(view, g, kind, q, index);
          clean = false;
        }
      }
      const int64_t start = g << memory.shift;
      const uint16_t low = static_cast<uint16_t>(std::max(begin, start) - start);
      const uint16_t high =
          static_cast<uint16_t>(std::min(last + 1, start + (int64_t{1} << memory.shift)) - start);
      const bool pending = granule.write_index > known[granule.write_pipe];
      if (pending && clean && low < granule.write_end && granule.write_begin < high) {
        ErrorKind kind = write ? ErrorKind::kWriteAfterWrite : ErrorKind::kReadAfterWrite;
        if (!Allowed(granule.write_pipe, granule.write_index, true, &kind)) {
          ReportHazard(view, g, kind, granule.write_pipe, granule.write_index);
          clean = false;
        }
      }
      if (pipe == PIPE_M && !write && clean && BarrierMissing(granule)) {
        ReportHazard(view, g, ErrorKind::kSmallMmad, PIPE_M, granule.write_index);
        clean = false;
      }
      if (!write) {
        granule.read_index[static_cast<size_t>(pipe)] = own;
        continue;
      }
      const bool beside = pending && granule.write_pipe == pipe;
      granule.write_begin = beside ? std::min(granule.write_begin, low) : low;
      granule.write_end = beside ? std::max(granule.write_end, high) : high;
      granule.write_index = own;
      granule.write_pipe = static_cast<uint8_t>(pipe);
    }
  }
  return clean;
}

}  // namespace lorica::ascend
