// The scalar unit: GetValue and SetValue, in local memories and, through its cache, in GM.
#include <cstring>

#include "lorica/kernels/ascend/sim/op.h"

namespace lorica::ascend {
namespace {

constexpr int64_t kCacheLine = 64;

struct Lines {
  GmBuffer* buffer;
  int64_t first;
  int64_t last;
};

Lines LinesOf(Core* core, const View& view, const Strip& strip) {
  GmBuffer* buffer = core->gm->Find(view.gm + strip.begin);
  const int64_t begin = view.gm + strip.begin - buffer->data;
  return {buffer, begin / kCacheLine, (begin + strip.piece - 1) / kCacheLine};
}

// A line that was read before and written since, by anyone but this scalar unit, is stale.
void CheckStale(Core* core, const View& view, const Strip& strip) {
  const Lines lines = LinesOf(core, view, strip);
  for (int64_t line = lines.first; line <= lines.last; ++line) {
    const std::pair<int32_t, int64_t> key{lines.buffer->id, line};
    const auto [at, fresh] = core->cached_lines.emplace(key, lines.buffer->writes.size());
    if (fresh) continue;
    for (size_t i = at->second; i < lines.buffer->writes.size(); ++i) {
      const GmAccess& write = lines.buffer->writes[i];
      if (write.core == core->id && write.pipe == PIPE_S) continue;
      if (write.strip.begin >= (line + 1) * kCacheLine || write.strip.end() <= line * kCacheLine) {
        continue;
      }
      core->Error(ErrorKind::kScalarCache,
                  "%s: %s is in the scalar cache from an earlier read and was written since; "
                  "invalidate it first",
                  core->Describe(core->current).c_str(),
                  core->DescribeRange(view, strip.begin, strip.end()).c_str());
      break;
    }
    at->second = lines.buffer->writes.size();
  }
}

}  // namespace

void ScalarRead(const View& view, int64_t index, void* value, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  const int64_t size = TypeBytes(view.type);
  Op op(core, PIPE_S, "GetValue", line);
  const Strip strip{index * size, size, 0, 1};
  op.Require(view.space == Space::kGm || view.space == Space::kUb, ErrorKind::kNoPath,
             [&] { return std::string("the scalar unit cannot read ") + SpaceName(view.space); });
  if (!op.ok()) return;
  op.Reads(view, strip, size);
  if (!op.ok()) return;
  if (view.space == Space::kGm) CheckStale(core, view, strip);
  op.Cost(Path::kNone, 0, core->soc->scalar_cost);
  const uint8_t* shadow = core->Shadow(view);
  if (shadow != nullptr &&
      std::memchr(shadow + strip.begin, 1, static_cast<size_t>(size)) != nullptr) {
    core->Error(ErrorKind::kUninitialised, "%s: uninitialised %s reaches a scalar",
                core->Describe(core->current).c_str(),
                core->DescribeRange(view, strip.begin, strip.end()).c_str());
  }
  std::memcpy(value, core->Data(view) + strip.begin, static_cast<size_t>(size));
}

void ScalarWrite(const View& view, int64_t index, const void* value, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  const int64_t size = TypeBytes(view.type);
  Op op(core, PIPE_S, "SetValue", line);
  const Strip strip{index * size, size, 0, 1};
  op.Require(view.space == Space::kGm || view.space == Space::kUb, ErrorKind::kNoPath,
             [&] { return std::string("the scalar unit cannot write ") + SpaceName(view.space); });
  if (!op.ok()) return;
  op.Writes(view, strip, size);
  if (!op.ok()) return;
  op.Cost(Path::kNone, 0, core->soc->scalar_cost);
  std::memcpy(core->Data(view) + strip.begin, value, static_cast<size_t>(size));
  uint8_t* shadow = core->Shadow(view);
  if (shadow != nullptr) std::memset(shadow + strip.begin, 0, static_cast<size_t>(size));
  if (view.space != Space::kGm) return;
  const Lines lines = LinesOf(core, view, strip);
  for (int64_t at = lines.first; at <= lines.last; ++at) {
    core->dirty_lines.insert({lines.buffer->id, at});
  }
}

void CacheClean(const View& view, bool whole_cache, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  Op op(core, PIPE_S, "DataCacheCleanAndInvalid", line);
  op.Cost(Path::kNone, 0, core->soc->scalar_cost);
  if (whole_cache) {
    core->dirty_lines.clear();
    core->cached_lines.clear();
    return;
  }
  const Strip strip{0, 1, 0, 1};
  if (!core->Bounds(view, strip, 1)) return;
  const Lines lines = LinesOf(core, view, strip);
  core->dirty_lines.erase({lines.buffer->id, lines.first});
  core->cached_lines.erase({lines.buffer->id, lines.first});
}

}  // namespace lorica::ascend
