#include "lorica/kernels/ascend/sim/core.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace lorica::ascend {

Core*& CurrentCore() {
  thread_local Core* core = nullptr;
  return core;
}

const char* SpaceName(Space space) {
  static constexpr const char* kNames[kSpaces] = {"GM", "L1", "UB", "L0A", "L0B", "L0C", "BT"};
  return kNames[static_cast<size_t>(space)];
}

Core::Core(const SocSpec* spec, GlobalMemory* global) : soc(spec), gm(global) {
  memory(Space::kL1).Create(Space::kL1, "L1", spec->l1, 32, 5);
  memory(Space::kUb).Create(Space::kUb, "UB", spec->ub, 32, 5);
  memory(Space::kL0A).Create(Space::kL0A, "L0A", spec->l0a, 512, 9);
  memory(Space::kL0B).Create(Space::kL0B, "L0B", spec->l0b, 512, 9);
  memory(Space::kL0C).Create(Space::kL0C, "L0C", spec->l0c, 64, 6);
  memory(Space::kBt).Create(Space::kBt, "BT", spec->bt, 64, 6);
}

void Core::Reset(int32_t number, bool is_cube, bool is_vector, SimReport* to) {
  id = number;
  cube = is_cube;
  vector = is_vector;
  report = to;
  instrs.clear();
  current = 0;
  for (size_t p = 0; p < kPipes; ++p) {
    by_pipe[p].clear();
    clocks[p] = Clock{};
    clock_changed[p] = true;
    for (size_t q = 0; q < kPipes; ++q) {
      events[p][q] = 0;
      for (HardFlag& flag : flags[p][q]) flag = HardFlag{};
    }
  }
  clock_log.clear();
  for (LocalMemory& memory : memories) memory.Reset();
  atomic = false;
  cube_barrier = 0;
  queues.clear();
  allocated.fill(0);
  dirty_lines.clear();
  cached_lines.clear();
}

Instr& Core::Issue(int pipe, const char* name, int line, Instr::Kind kind) {
  const size_t p = static_cast<size_t>(pipe);
  // The scalar unit issues in order: what it has waited for lies before all that it issues.
  if (pipe != PIPE_S && clocks[p].Join(clocks[PIPE_S])) clock_changed[p] = true;
  current = static_cast<uint32_t>(instrs.size());
  Instr& instr = instrs.emplace_back();
  instr.name = name;
  instr.line = line;
  instr.kind = kind;
  instr.pipe = static_cast<uint8_t>(pipe);
  by_pipe[p].push_back(current);
  instr.index = static_cast<uint32_t>(by_pipe[p].size());
  ++report->instructions;
  return instr;
}

Clock Core::Completed(int pipe) const {
  Clock clock = clocks[static_cast<size_t>(pipe)];
  clock.own[static_cast<size_t>(pipe)] =
      static_cast<uint32_t>(by_pipe[static_cast<size_t>(pipe)].size());
  return clock;
}

void Core::Learn(int pipe, const Clock& clock) {
  if (clocks[static_cast<size_t>(pipe)].Join(clock))
    clock_changed[static_cast<size_t>(pipe)] = true;
}

uint32_t Core::ClockId(int pipe) {
  const size_t p = static_cast<size_t>(pipe);
  if (clock_changed[p]) {
    clock_changed[p] = false;
    clock_ids[p] = static_cast<uint32_t>(clock_log.size());
    clock_log.push_back(clocks[p]);
  }
  return clock_ids[p];
}

void Core::Error(ErrorKind kind, const char* format, ...) {
  ++report->error_count;
  if (report->errors.size() >= SimReport::kMaxErrors) return;
  char text[600];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  report->errors.push_back({kind, id, text});
}

std::string Core::Describe(uint32_t number) const {
  const Instr& instr = instrs[number];
  char text[160];
  std::snprintf(text, sizeof(text), "%s #%u %s (line %d)", PipeName(instr.pipe), instr.index,
                instr.name, instr.line);
  return text;
}

std::string Core::DescribeRange(const View& view, int64_t begin, int64_t end) const {
  char text[200];
  if (view.space == Space::kGm) {
    const GmBuffer* buffer = gm->Find(view.gm);
    const long long base = buffer == nullptr ? 0 : view.gm - buffer->data;
    std::snprintf(text, sizeof(text), "GM %s [%lld, %lld)",
                  buffer == nullptr ? "(no buffer)" : buffer->name.c_str(), base + begin,
                  base + end);
  } else {
    std::snprintf(text, sizeof(text), "%s [%lld, %lld)", SpaceName(view.space),
                  static_cast<long long>(view.offset + begin),
                  static_cast<long long>(view.offset + end));
  }
  return text;
}

bool Core::Bounds(const View& view, const Strip& strip, int64_t alignment) {
  const auto refuse = [&](ErrorKind kind, const std::string& what) {
    Error(kind, "%s: %s %s", Describe(current).c_str(),
          DescribeRange(view, strip.begin, strip.end()).c_str(), what.c_str());
    return false;
  };
  if (strip.begin < 0 || view.bytes < 0 || strip.step < 0) {
    return refuse(ErrorKind::kOutOfBounds, "begins outside of its tensor");
  }
  if (view.space == Space::kGm) {
    if (view.bytes > 0 && strip.end() > view.bytes) {
      return refuse(ErrorKind::kOutOfBounds,
                    "passes the tensor's end at " + std::to_string(view.bytes));
    }
    const GmBuffer* buffer = gm->Find(view.gm + strip.begin);
    if (buffer == nullptr || view.gm + strip.end() > buffer->data + buffer->bytes) {
      return refuse(ErrorKind::kOutOfBounds, buffer == nullptr ? "lies in no registered buffer"
                                                               : "passes the buffer's end at " +
                                                                     std::to_string(buffer->bytes));
    }
    if (alignment > 1 && (view.gm + strip.begin - buffer->data) % alignment != 0) {
      return refuse(ErrorKind::kMisaligned, "is not at a multiple of " + std::to_string(alignment));
    }
    return true;
  }
  const LocalMemory& memory = memories[static_cast<size_t>(view.space)];
  if (view.offset < 0 || view.offset + std::max(view.bytes, strip.end()) > memory.capacity) {
    return refuse(view.offset + view.bytes > memory.capacity ? ErrorKind::kOverCapacity
                                                             : ErrorKind::kOutOfBounds,
                  "passes the memory's end at " + std::to_string(memory.capacity));
  }
  if (strip.end() > view.bytes) {
    return refuse(ErrorKind::kOutOfBounds,
                  "passes the tensor's end at " + std::to_string(view.offset + view.bytes));
  }
  if ((view.offset + strip.begin) % alignment != 0) {
    return refuse(ErrorKind::kMisaligned, "is not at a multiple of " + std::to_string(alignment));
  }
  return true;
}

bool Core::Access(const View& view, const Strip& strip, bool write, int64_t alignment) {
  if (strip.piece <= 0 || strip.count <= 0) return true;
  if (!Bounds(view, strip, alignment)) return false;
  if (view.space != Space::kGm) return Hazards(view, strip, write), true;
  GmBuffer* buffer = gm->Find(view.gm + strip.begin);
  const Instr& instr = instrs[current];
  GmAccess access;
  access.strip = strip;
  access.strip.begin += view.gm - buffer->data;
  access.core = id;
  access.instr = current;
  access.index = instr.index;
  access.clock = ClockId(instr.pipe);
  access.pipe = instr.pipe;
  access.write = write;
  access.atomic = write && atomic && instr.pipe != PIPE_S;
  access.atomic_type = atomic_type;
  (write ? buffer->writes : buffer->reads).push_back(access);
  if (instr.pipe != PIPE_S && !dirty_lines.empty()) {
    const int64_t first = access.strip.begin / 64;
    const int64_t last = (access.strip.end() - 1) / 64;
    const auto dirty = dirty_lines.lower_bound({buffer->id, first});
    if (dirty != dirty_lines.end() && dirty->first == buffer->id && dirty->second <= last) {
      Error(ErrorKind::kScalarCache,
            "%s: %s was written by the scalar unit and is still in its cache; clean it first",
            Describe(current).c_str(), DescribeRange(view, strip.begin, strip.end()).c_str());
    }
  }
  return true;
}

uint8_t* Core::Data(const View& view) {
  if (view.space == Space::kGm) return view.gm;
  return memory(view.space).data.data() + view.offset;
}

uint8_t* Core::Shadow(const View& view) {
  if (view.space != Space::kGm) return memory(view.space).shadow.data() + view.offset;
  GmBuffer* buffer = gm->Find(view.gm);
  if (buffer == nullptr || buffer->shadow.empty()) return nullptr;
  return buffer->shadow.data() + (view.gm - buffer->data);
}

void Core::Move(const View& to, int64_t to_offset, const View& from, int64_t from_offset,
                int64_t bytes) {
  const uint8_t* data = Data(from) + from_offset;
  const uint8_t* shadow = Shadow(from);
  if (shadow != nullptr) shadow += from_offset;
  if (to.space == Space::kGm) {
    StoreGm(to, to_offset, data, shadow, bytes);
    return;
  }
  const size_t size = static_cast<size_t>(bytes);
  std::memcpy(Data(to) + to_offset, data, size);
  if (shadow != nullptr) {
    std::memcpy(Shadow(to) + to_offset, shadow, size);
  } else {
    std::memset(Shadow(to) + to_offset, 0, size);
  }
}

}  // namespace lorica::ascend
