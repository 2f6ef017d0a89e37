#include "lorica/kernels/ascend/lowering.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "lorica/kernels/ascend/lora_program.h"
#include "lorica/kernels/ascend/split_steps.h"
#include "lorica/kernels/ascend/tile_packer.h"

namespace lorica::ascend {
namespace {

// Fractals of B in half of L0B beside the identity, and in a third of it beside that and two scaled
// ones.
constexpr int32_t kHalfFractals = 61;
constexpr int32_t kPlaceFractals = 40;
// Fractals of a tile of y in its half of L0C's second part.
constexpr int32_t kYFractals = 32;
// Fractal columns of a chunk that is still worth its instructions: few columns are cut in two, so
// that the second chunk's load and product run beside the first one's way out.
constexpr int32_t kLeastChunk = 6;
// Rows of y whose way out of a chunk is worth such a cut.
constexpr int32_t kRowsThatTakeTime = 4;
constexpr int64_t kAlignment = 32;
// What a core reads while its last sum of a round goes out, a flag comes back and all cores' sums
// come in: about 750 cycles at the rate of its path; and which part of a chunk's load it rather
// waits for the flag than asks for the chunk first.
constexpr int64_t kMeetBytes = 58000;
constexpr int64_t kStallShare = 4;
// Fractal columns of the last chunk of a split share: all that follows the last load is done with
// them alone.
constexpr int32_t kLastChunk = 12;

Status CheckLength(const std::string& where, const char* what, int64_t length) {
  if (length > 0 && length % kFractal == 0 && length <= kMaxInner) return OkStatus();
  return OutOfRange(where + ": expected " + what + " as a multiple of 16 up to " +
                    std::to_string(kMaxInner) + ", as the matrix unit takes it, found " +
                    std::to_string(length));
}

Status CheckAddress(const std::string& where, uint64_t address) {
  if (address % kAlignment == 0) return OkStatus();
  return OutOfRange(where + ": expected an address that is a multiple of " +
                    std::to_string(kAlignment) + ", found one with remainder " +
                    std::to_string(address % kAlignment));
}

class Lowering {
 public:
  Lowering(const LoweringInput& input, LoraProgram* program) : in_(input), out_(program) {}

  Status Run() {
    const auto workers = static_cast<size_t>(in_.plan->workers);
    AlignedVector<uint64_t>& words = out_->words;
    words.assign(kCoresAt + workers * kCoreWords, 0);
    out_->cores = 0;
    out_->items = 0;
    for (int32_t part = 0; part < in_.call->parts; ++part) LORICA_RETURN_IF_ERROR(CheckPart(part));
    loads_.assign(workers, {});
    for (size_t worker = 0; worker < workers; ++worker) {
      const uint64_t first = words.size();
      Counts shrinks{};
      Counts others{};
      LORICA_RETURN_IF_ERROR(AddWorker(worker, &shrinks, &others));
      uint64_t* core = words.data() + kCoresAt + worker * kCoreWords;
      core[kCoreFirst] = first | Fields(0, 0, shrinks[0], shrinks[1]);
      core[kCoreRest] = Fields(others[0], others[1], 0, 0);
      if (words.size() > first) out_->cores = static_cast<int32_t>(worker) + 1;
    }
    words[0] = static_cast<uint64_t>(out_->cores);
    AddLeads();
    AddScales();
    return OkStatus();
  }

 private:
  using Counts = std::array<uint64_t, kRounds>;
  // What a split share reads: its shrinks, and its expands unit by unit.
  struct Loads {
    std::array<int64_t, kRounds> shrinks{};
    std::vector<int64_t> units;
    std::vector<SplitExpand> expands;
    // Words of each: kMemberChunk of its only member, and the first of its steps.
    std::vector<size_t> chunk_words;
    std::vector<size_t> step_words;
  };
  struct Item {
    int32_t segment_begin = 0;
    int32_t segment_end = 0;
    int32_t part = 0;
    int32_t row_begin = 0;
    int32_t row_end = 0;
    int32_t begin = 0;  // columns; of a split shrink: inputs
    int32_t end = 0;
    int64_t pitch = 0;
    uint64_t y = 0;
    uint64_t sums = 0;
    bool ends_share = false;  // the core's last one
  };

  Status AddWorker(size_t worker, Counts* shrinks, Counts* others) {
    const lora::LoraPlan& plan = *in_.plan;
    const auto at = static_cast<int32_t>(worker);
    const auto n = [&](int32_t part) { return in_.call->shape[static_cast<size_t>(part)].n; };
    const auto y = [&](int32_t part) { return in_.y[static_cast<size_t>(part)]; };
    const auto sums = [&](int64_t offset) { return in_.sums + static_cast<uint64_t>(offset) * 4; };
    for (int32_t i = plan.fused_begin[worker]; i < plan.fused_begin[worker + 1]; ++i) {
      ++(*others)[0];
      const lora::FusedItem& f = plan.fused[static_cast<size_t>(i)];
      LORICA_RETURN_IF_ERROR(
          AddItem({f.segment_begin, f.segment_end, f.part, f.row_begin, f.row_end, f.column_begin,
                   f.column_end, n(f.part), y(f.part), 0},
                  at));
    }
    split_ = plan.fused.empty();
    for (int32_t i = plan.shrink_begin[worker]; i < plan.shrink_begin[worker + 1]; ++i) {
      const lora::ShrinkItem& s = plan.shrinks[static_cast<size_t>(i)];
      ++(*shrinks)[static_cast<size_t>(s.round)];
      loads_[worker].shrinks[static_cast<size_t>(s.round)] +=
          int64_t{s.k_end - s.k_begin} *
          ((s.tile_end - s.tile_begin) * 16 + s.row_end - s.row_begin) * 2;
      LORICA_RETURN_IF_ERROR(AddItem({s.segment, s.segment + 1, s.part, s.row_begin, s.row_end,
                                      s.k_begin, s.k_end, s.s_stride, 0, sums(s.s_offset)},
                                     at));
    }
    for (int32_t i = plan.expand_begin[worker]; i < plan.expand_begin[worker + 1]; ++i) {
      const lora::ExpandItem& e = plan.expands[static_cast<size_t>(i)];
      Loads& loads = loads_[worker];
      SplitExpand expand;
      const size_t head = out_->words.size();
      expand.round = e.round;
      expand.part = e.part;
      expand.rows = e.row_end - e.row_begin;
      expand.chunk_begin = loads.units.size();
      ++(*others)[static_cast<size_t>(e.round)];
      LORICA_RETURN_IF_ERROR(AddItem(
          {e.segment, e.segment + 1, e.part, e.row_begin, e.row_end, e.column_begin, e.column_end,
           n(e.part), y(e.part), sums(e.s_offset), i + 1 == plan.expand_begin[worker + 1]},
          at));
      expand.chunk_end = loads.units.size();
      expand.tiles = static_cast<int32_t>(tiles_.size() / kTileWords);
      loads.expands.push_back(expand);
      const size_t members = head + kItemHead + runs_.size();
      loads.chunk_words.push_back(members + kMemberChunk);
      loads.step_words.push_back(members + members_.size() + tiles_.size());
    }
    return OkStatus();
  }

  // How many units of its expands a core asks for before it asks for the sums of a round.
  void AddLeads() {
    std::array<int64_t, kRounds> sent{};
    for (const Loads& loads : loads_) {
      int64_t bytes = 0;
      for (size_t round = 0; round < kRounds; ++round) {
        bytes += loads.shrinks[round];
        sent[round] = std::max(sent[round], bytes);
      }
    }
    for (size_t worker = 0; worker < loads_.size(); ++worker) {
      const Loads& loads = loads_[worker];
      std::array<uint64_t, kRounds> leads{};
      for (size_t round = 0; round < kRounds; ++round) {
        int64_t bytes = 0;
        for (const int64_t shrink : loads.shrinks) bytes += shrink;
        uint64_t& lead = leads[round];
        while (lead < loads.units.size() && bytes < sent[round] + kMeetBytes) {
          if (sent[round] + kMeetBytes - bytes < loads.units[lead] / kStallShare) break;
          bytes += loads.units[lead++];
        }
      }
      uint64_t* words = out_->words.data();
      words[kCoresAt + worker * kCoreWords + kCoreRest] |= Fields(0, 0, leads[0], leads[1]);
      AddSteps(loads, leads);
    }
  }

  void AddSteps(const Loads& loads, const std::array<uint64_t, kRounds>& leads) {
    const SplitOrder order = OrderSplit(loads.expands, leads);
    uint64_t* words = out_->words.data();
    for (size_t i = 0; i < loads.expands.size(); ++i) {
      words[loads.chunk_words[i]] |= Fields(0, 0, order.s_at[i], order.batch_tiles[i]);
      const SplitExpand& e = loads.expands[i];
      for (size_t chunk = e.chunk_begin; chunk < e.chunk_end; ++chunk) {
        const size_t number = chunk - e.chunk_begin;
        words[loads.step_words[i] + number / kStepsOfWord] |=
            order.steps[chunk] << (number % kStepsOfWord * kStepBits);
      }
    }
  }

  // The number of the identity times `scale`.
  uint64_t ScaleNumber(float scale) {
    const auto known = std::find(scales_.begin(), scales_.end(), scale);
    if (known != scales_.end()) return static_cast<uint64_t>(known - scales_.begin());
    scales_.push_back(scale);
    return scales_.size() - 1;
  }

  void AddScales() {
    AlignedVector<uint64_t>& words = out_->words;
    // 512 bytes is where copies are fastest.
    words.resize((words.size() + 63) / 64 * 64, 0);
    words[kScalesAt] = words.size();
    for (const float scale : scales_) {
      const size_t at = words.size();
      words.resize(at + kScaleWords, 0);
      auto* fractals = reinterpret_cast<float*>(words.data() + at);
      for (size_t i = 0; i < 16; ++i) fractals[i / 8 * 128 + i * 8 + i % 8] = scale;
    }
  }

  Status CheckPart(int32_t part) const {
    const lora::SiteShape& shape = in_.call->shape[static_cast<size_t>(part)];
    const std::string where = Where(part);
    LORICA_RETURN_IF_ERROR(CheckLength(where, "K", shape.k));
    LORICA_RETURN_IF_ERROR(CheckLength(where, "N", shape.n));
    return CheckAddress(where + " y", in_.y[static_cast<size_t>(part)]);
  }

  std::string Where(int32_t part) const {
    return in_.table->sites().Name(in_.call->site[static_cast<size_t>(part)]);
  }

  void AddRuns(int32_t begin, int32_t end, int32_t first) {
    const std::vector<int32_t>& order = in_.segments->order();
    for (int32_t i = begin; i < end;) {
      int32_t next = i + 1;
      while (next < end &&
             order[static_cast<size_t>(next)] == order[static_cast<size_t>(next - 1)] + 1) {
        ++next;
      }
      runs_.push_back(
          static_cast<uint64_t>(order[static_cast<size_t>(i)]) |
          Fields(0, 0, static_cast<uint64_t>(i - first), static_cast<uint64_t>(next - i)));
      i = next;
    }
  }

  Status AddTiles(const Item& item, const lora::Segment& segment) {
    const lora::SiteId site = in_.call->site[static_cast<size_t>(item.part)];
    const lora::SiteShape& shape = in_.call->shape[static_cast<size_t>(item.part)];
    for (const lora::TileRef& tile : in_.table->Entry(segment.slot, site).tiles) {
      const float packed = AscendTilePacker::Note(tile.address, shape).scale;
      if (in_.arch == Arch::k2201 && !split_ && packed != tile.scale) {
        return Unimplemented(Where(item.part) +
                             ": expected tiles with the weight that is in their "
                             "B, " +
                             std::to_string(packed) + ", found a weight of " +
                             std::to_string(tile.scale));
      }
      const uint64_t a =
          in_.translate ? in_.translate(tile.address) : reinterpret_cast<uint64_t>(tile.address);
      LORICA_RETURN_IF_ERROR(CheckAddress(Where(item.part) + " tile", a));
      const uint64_t b =
          a + static_cast<uint64_t>(AscendTilePacker::FactorB(tile.address, shape) - tile.address);
      tiles_.push_back(a);
      tiles_.push_back(b);
      tiles_.push_back(split_                    ? ScaleNumber(tile.scale / packed)
                       : in_.arch == Arch::k2201 ? 0
                                                 : std::bit_cast<uint32_t>(tile.scale));
    }
    return OkStatus();
  }

  Status AddItem(const Item& item, int32_t worker) {
    runs_.clear();
    members_.clear();
    tiles_.clear();
    const lora::SiteShape& shape = in_.call->shape[static_cast<size_t>(item.part)];
    const int32_t rows = item.row_end - item.row_begin;
    const int32_t blocks = (rows + 15) / 16;
    const int32_t columns = item.end - item.begin;
    uint64_t steps = 0;  // words
    for (int32_t s = item.segment_begin; s < item.segment_end; ++s) {
      const lora::Segment& segment = in_.segments->segments()[static_cast<size_t>(s)];
      const uint64_t first_run = runs_.size();
      const uint64_t first_tile = tiles_.size() / kTileWords;
      AddRuns(std::max(item.row_begin, segment.begin), std::min(item.row_end, segment.end),
              item.row_begin);
      LORICA_RETURN_IF_ERROR(AddTiles(item, segment));
      const auto tiles = static_cast<int32_t>(tiles_.size() / kTileWords - first_tile);
      if (tiles * 16 > static_cast<int32_t>(kMaxMixRank)) {
        return OutOfRange(Where(item.part) + ": expected a rank of at most " +
                          std::to_string(kMaxMixRank) + ", found " + std::to_string(tiles) +
                          " tiles of 16");
      }
      // Few rows of a split expand leave quickly: there wide chunks are better loaded ahead.
      const int32_t halves = split_ && rows < kRowsThatTakeTime ? 1 : 2;
      const int32_t wide = std::max(kLeastChunk, (columns / 16 + halves - 1) / halves);
      const int32_t most =
          16 * std::max(1, std::min({(split_ ? kPlaceFractals : kHalfFractals) / std::max(tiles, 1),
                                     kYFractals / blocks, wide}));
      // Chunks of one width, as nearly as can be.
      const int32_t chunks = (columns + most - 1) / most;
      int32_t chunk = (columns / 16 + chunks - 1) / chunks * 16;
      if (item.ends_share && columns / 16 > 2 * kLastChunk) {
        const int32_t others = columns / 16 - kLastChunk;
        const int32_t before = (others * 16 + most - 1) / most;
        chunk = (others + before - 1) / before * 16;
      }
      // Cores that share tiles begin at different ones; split items share none.
      const int32_t start = split_ ? 0 : worker * chunks / in_.plan->workers;
      members_.push_back(Fields(first_run, runs_.size(), first_tile, static_cast<uint64_t>(tiles)));
      members_.push_back(Fields(static_cast<uint64_t>(chunk), static_cast<uint64_t>(start), 0, 0));
      if (split_ && item.y != 0) {
        std::vector<int64_t>& units = loads_[static_cast<size_t>(worker)].units;
        const size_t before = units.size();
        for (int32_t at = 0; at < columns; at += chunk) {
          units.push_back(int64_t{std::min(chunk, columns - at)} * (tiles * 16 + rows) * 2);
        }
        steps = (units.size() - before + kStepsOfWord - 1) / kStepsOfWord;
      }
    }
    const auto tiles = static_cast<int32_t>(tiles_.size() / kTileWords);
    const auto most_rows = static_cast<int32_t>(in_.arch == Arch::k2201 ? kMaxRows : kMaxRows2002);
    const auto most_row_ranks = static_cast<int32_t>(split_ ? kSplitRowRanks : kMaxRowRanks);
    if (rows > most_rows || blocks * 16 * tiles * 16 > most_row_ranks) {
      return OutOfRange(Where(item.part) + ": expected items of at most " +
                        std::to_string(most_rows) + " rows and " + std::to_string(most_row_ranks) +
                        " rows x ranks, found " + std::to_string(rows) + " rows and " +
                        std::to_string(tiles * 16) + " ranks");
    }
    const int32_t groups =
        (tiles + static_cast<int32_t>(kGroupTiles) - 1) / static_cast<int32_t>(kGroupTiles);
    const uint64_t size = kItemHead + runs_.size() + members_.size() + tiles_.size() + steps;
    const uint64_t x_steps =
        std::min(kBlock / kStep, kMaxRows / static_cast<uint32_t>(blocks * 16));
    const auto slices =
        split_ ? static_cast<uint64_t>(SplitLimitsOf(1).SlicesOf(shape.k)) : uint64_t{0};
    const uint64_t head[kItemHead] = {
        size | Fields(0, 0, static_cast<uint64_t>(rows), runs_.size()),
        Fields(static_cast<uint64_t>(shape.k), static_cast<uint64_t>(tiles),
               members_.size() / kMemberWords, x_steps | (slices << 8)),
        Fields(static_cast<uint64_t>(item.begin), static_cast<uint64_t>(item.end),
               static_cast<uint64_t>(item.pitch),
               static_cast<uint64_t>(worker * groups / in_.plan->workers)),
        item.y, item.sums};
    AlignedVector<uint64_t>& words = out_->words;
    words.insert(words.end(), head, head + kItemHead);
    words.insert(words.end(), runs_.begin(), runs_.end());
    words.insert(words.end(), members_.begin(), members_.end());
    words.insert(words.end(), tiles_.begin(), tiles_.end());
    words.resize(words.size() + steps, 0);
    ++out_->items;
    return OkStatus();
  }

  const LoweringInput& in_;
  LoraProgram* out_;
  bool split_ = false;
  std::vector<Loads> loads_;
  std::vector<float> scales_;
  std::vector<uint64_t> runs_;
  std::vector<uint64_t> members_;
  std::vector<uint64_t> tiles_;
};

}  // namespace

lora::PlanLimits LimitsOf(int32_t cores, Arch arch) {
  lora::PlanLimits limits;
  limits.form = lora::PlanLimits::Form::kFused;
  limits.workers = cores;
  limits.row_quantum = 16;
  limits.row_block = static_cast<int32_t>(arch == Arch::k2201 ? kMaxRows : kMaxRows2002);
  limits.rank_quantum = 16;
  limits.column_quantum = 16;
  limits.local_bytes = int64_t{kMaxRowRanks} * 4;
  return limits;
}

lora::PlanLimits SplitLimitsOf(int32_t cores) {
  lora::PlanLimits limits = LimitsOf(cores);
  limits.form = lora::PlanLimits::Form::kSplit;
  limits.local_bytes = int64_t{kSplitRowRanks} * 4;
  limits.slice_quantum = kBlock;
  limits.most_slices = kMostSlices;
  return limits;
}

Status Lower(const LoweringInput& input, LoraProgram* program) {
  return Lowering(input, program).Run();
}

}  // namespace lorica::ascend
