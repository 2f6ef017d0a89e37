// For tests and the cycle table: one linear call with adapters of random numbers on the AI Core
// model, through segments, plan and lowering, and its value in fp64. Single-threaded use.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "lorica/base/check.h"
#include "lorica/kernels/ascend/aligned_vector.h"
#include "lorica/kernels/ascend/kernel_entries.h"
#include "lorica/kernels/ascend/lowering.h"
#include "lorica/kernels/ascend/sim/simulator.h"
#include "lorica/kernels/ascend/tile_packer.h"

namespace lorica::ascend {

struct OperatorShape {
  int64_t k = 0;
  std::vector<int64_t> n;      // of each part
  std::vector<int32_t> ranks;  // of each adapter
  std::vector<double> scales;  // of each adapter; empty: 1
  DType dtype = DType::kF16;
  Arch arch = Arch::k2201;
  bool split = false;  // lora_linear_split.cpp: the scale is on S
};

enum class YKind { kFused, kAtomic, kF32 };

class OperatorProblem {
 public:
  using Kernel = void (*)(uint8_t*, uint8_t*, uint8_t*);

  OperatorProblem(const OperatorShape& shape, uint32_t seed)
      : shape_(shape),
        packer_(shape.dtype, InB(shape) ? ScalePlace::kInB : ScalePlace::kOnS),
        table_(lora::SiteSpace{1}, static_cast<int32_t>(std::max<size_t>(1, shape.ranks.size()))),
        random_(seed) {
    for (size_t slot = 0; slot < shape.ranks.size(); ++slot)
      InstallSlot(static_cast<int32_t>(slot));
  }

  float Round(double value) const {
    const auto narrow = static_cast<float>(value);
    return shape_.dtype == DType::kF16 ? F16ToF32(F32ToF16(narrow)) : Bf16ToF32(F32ToBf16(narrow));
  }
  uint16_t Bits(float value) const {
    return shape_.dtype == DType::kF16 ? F32ToF16(value) : F32ToBf16(value);
  }
  float Value(uint16_t bits) const {
    return shape_.dtype == DType::kF16 ? F16ToF32(bits) : Bf16ToF32(bits);
  }
  AlignedVector<float> RandomRounded(int64_t count, float spread) {
    std::uniform_real_distribution<float> uniform(-spread, spread);
    AlignedVector<float> out(static_cast<size_t>(count));
    for (float& v : out) v = Round(double{uniform(random_)});
    return out;
  }

  struct Step {
    std::vector<lora::SlotId> slots;      // of each row
    AlignedVector<float> x;               // [rows, K], rounded
    std::vector<AlignedVector<float>> y;  // of each part, [rows, N], rounded; in and out
  };
  Step RandomStep(const std::vector<lora::SlotId>& slots) {
    Step step;
    step.slots = slots;
    const auto rows = static_cast<int64_t>(slots.size());
    step.x = RandomRounded(rows * shape_.k, 1.0f);
    for (const int64_t n : shape_.n) step.y.push_back(RandomRounded(rows * n, 2.0f));
    return step;
  }

  struct RunOptions {
    YKind y = YKind::kFused;
    LaunchOptions launch;
    bool in_l2 = false;
    const lora::LoraPlan* plan = nullptr;  // null: the planner's
    lora::PlanLimits limits = LimitsOf(20);
    Kernel kernel = nullptr;  // null: by type and y
    // Given x and y of part 0 on the device, what each core runs before the kernel in one launch.
    std::function<std::function<void()>(uint8_t* x, uint8_t* y)> before;
  };
  struct RunResult {
    LaunchResult launch;
    LoraProgram program;
    lora::LoraPlan plan;
  };

  // Runs `step` on `simulator`; y of the step becomes the result.
  RunResult Run(Simulator* simulator, const RunOptions& options, Step* step) {
    RunResult result;
    const auto rows = step->slots.size();
    lora::SegmentTable segments;
    segments.Build(step->slots);
    if (options.plan == nullptr) {
      lora::BuildPlan(Call(), segments, table_, options.limits, &result.plan);
    } else {
      result.plan = *options.plan;
    }
    const bool wide = options.y == YKind::kF32;
    AlignedVector<uint16_t> x = Encode(step->x);
    std::vector<AlignedVector<uint16_t>> y16;
    std::vector<uint64_t> addresses;
    simulator->RemoveAllGm();
    GmOptions gm;
    gm.in_l2 = options.in_l2;
    for (size_t i = 0; i < tiles_.size(); ++i) {
      simulator->AddGm("tile " + std::to_string(i), tiles_[i].data(), tiles_[i].bytes(), gm);
    }
    for (size_t part = 0; part < shape_.n.size(); ++part) y16.push_back(Encode(step->y[part]));
    for (size_t part = 0; part < shape_.n.size(); ++part) {
      auto* data = wide ? reinterpret_cast<uint8_t*>(step->y[part].data())
                        : reinterpret_cast<uint8_t*>(y16[part].data());
      const size_t bytes = rows * static_cast<size_t>(shape_.n[part]) * (wide ? 4 : 2);
      GmOptions warm;
      warm.in_l2 = true;  // the base product has just written it
      simulator->AddGm("y " + std::to_string(part), data, static_cast<int64_t>(bytes), warm);
      addresses.push_back(reinterpret_cast<uint64_t>(data));
    }
    AlignedVector<float> sums(static_cast<size_t>(result.plan.s_floats));
    LoweringInput input;
    const lora::CallSites call = Call();
    input.sums = reinterpret_cast<uint64_t>(sums.data());
    input.arch = shape_.arch;
    input.call = &call;
    input.plan = &result.plan;
    input.segments = &segments;
    input.table = &table_;
    input.y = addresses;
    const Status lowered = Lower(input, &result.program);
    LORICA_CHECK(lowered.ok());
    AlignedVector<uint16_t> identity = Identity();
    GmOptions warm;
    warm.in_l2 = true;
    simulator->AddGm("x", x.data(), static_cast<int64_t>(x.size() * 2), warm);
    simulator->AddGm("program", result.program.words.data(),
                     static_cast<int64_t>(result.program.words.size() * 8), warm);
    simulator->AddGm("identity", identity.data(), static_cast<int64_t>(identity.size() * 2), warm);
    GmOptions unwritten;
    unwritten.initialised = false;
    unwritten.in_l2 = true;
    if (!sums.empty()) {
      simulator->AddGm("sums of slices", sums.data(), static_cast<int64_t>(sums.size() * 4),
                       unwritten);
    }
    LaunchOptions launch = options.launch;
    if (shape_.split) launch.type = KernelType::kMixAic1_0;
    launch.blocks = std::max(1, result.program.cores);
    const Kernel kernel = options.kernel != nullptr ? options.kernel : KernelFor(options.y);
    std::function<void()> before;
    if (options.before) {
      before = options.before(reinterpret_cast<uint8_t*>(x.data()),
                              reinterpret_cast<uint8_t*>(addresses[0]));
    }
    result.launch = simulator->Launch(launch, [&] {
      if (before) before();
      kernel(reinterpret_cast<uint8_t*>(x.data()),
             reinterpret_cast<uint8_t*>(result.program.words.data()),
             reinterpret_cast<uint8_t*>(identity.data()));
    });
    simulator->RemoveAllGm();
    if (!wide) {
      for (size_t part = 0; part < shape_.n.size(); ++part) {
        for (size_t i = 0; i < y16[part].size(); ++i) step->y[part][i] = Value(y16[part][i]);
      }
    }
    return result;
  }

  // Elements of `after` whose distance from the fp64 value is more than the rounding of S, the
  // fp32 sums and the last rounding(s) explain; the worst ratio of error to bound goes to `worst`.
  int64_t CountWrong(const Step& before, const Step& after, YKind kind, double* worst) const {
    const double u = shape_.dtype == DType::kF16 ? 0x1p-11 : 0x1p-8;
    // Of f16: half of the spacing of its subnormals, for S and y near zero.
    const double tiny = shape_.dtype == DType::kF16 ? 0x1p-25 : 0.0;
    const double u32 = 0x1p-24;
    int64_t wrong = 0;
    for (size_t part = 0; part < shape_.n.size(); ++part) {
      const int64_t n = shape_.n[part];
      for (size_t row = 0; row < before.slots.size(); ++row) {
        const lora::SlotId slot = before.slots[row];
        const float* y0 = before.y[part].data() + static_cast<int64_t>(row) * n;
        const float* y1 = after.y[part].data() + static_cast<int64_t>(row) * n;
        if (slot == lora::kBaseModel) {
          for (int64_t c = 0; c < n; ++c) wrong += y0[c] != y1[c] ? 1 : 0;
          continue;
        }
        const Factors& f = factors_[static_cast<size_t>(slot.index)][part];
        std::vector<double> s(static_cast<size_t>(f.rank)), s_abs(static_cast<size_t>(f.rank));
        for (int32_t r = 0; r < f.rank; ++r) {
          for (int64_t k = 0; k < shape_.k; ++k) {
            const double product =
                double{before.x[row * static_cast<size_t>(shape_.k) + static_cast<size_t>(k)]} *
                double{f.a[static_cast<size_t>(r * shape_.k + k)]};
            s[static_cast<size_t>(r)] += product;
            s_abs[static_cast<size_t>(r)] += std::fabs(product);
          }
          s[static_cast<size_t>(r)] *= f.s_scale;
          s_abs[static_cast<size_t>(r)] *= std::fabs(f.s_scale);
        }
        for (int64_t c = 0; c < n; ++c) {
          double delta = 0, s_error = 0, delta_abs = 0;
          for (int32_t r = 0; r < f.rank; ++r) {
            const double b = double{f.b[static_cast<size_t>(c * f.rank + r)]};
            const auto i = static_cast<size_t>(r);
            delta += s[i] * b;
            delta_abs += std::fabs(s[i] * b);
            s_error +=
                (std::fabs(s[i]) * u + tiny + s_abs[i] * u32 * static_cast<double>(shape_.k)) *
                std::fabs(b);
          }
          const double exact = double{y0[c]} + delta;
          double bound = s_error * (1 + u) +
                         (delta_abs + s_error + std::fabs(double{y0[c]})) * u32 * (f.rank + 2);
          if (kind == YKind::kF32) {
            bound += u32 * (std::fabs(exact) + bound);
          } else {
            if (kind == YKind::kAtomic) bound += u * (std::fabs(delta) + bound) + tiny;
            bound += u * (std::fabs(exact) + bound) + tiny;
          }
          const double error = std::fabs(double{y1[c]} - exact);
          if (!(error <= bound)) ++wrong;
          *worst = std::max(*worst, error / bound);
        }
      }
    }
    return wrong;
  }

  struct Factors {
    int32_t rank = 0;
    AlignedVector<float> a;  // [rank, K]
    AlignedVector<float> b;  // [N, rank], as packed: times the scale, rounded once
    double s_scale = 1.0;    // what S is multiplied with
  };

  const Factors& factors(lora::SlotId slot, size_t part) const {
    return factors_[static_cast<size_t>(slot.index)][part];
  }

  lora::CallSites Call() const {
    lora::CallSites call;
    call.call = lora::CallKind::kQkv;
    call.parts = static_cast<int32_t>(shape_.n.size());
    for (size_t part = 0; part < shape_.n.size(); ++part) {
      call.site[part] = Site(part);
      call.shape[part] = {shape_.k, shape_.n[part]};
    }
    return call;
  }
  const lora::WeightTable& table() const { return table_; }
  // `slot` becomes a mix of others, by weights.
  void MixInto(lora::SlotId slot, const std::vector<std::pair<lora::SlotId, float>>& members) {
    std::vector<lora::WeightTable::SiteTiles> sites;
    for (size_t part = 0; part < shape_.n.size(); ++part) {
      lora::WeightTable::SiteTiles tiles;
      tiles.site = Site(part);
      for (const auto& [member, weight] : members) {
        for (lora::TileRef tile : table_.Entry(member, Site(part)).tiles) {
          tile.scale *= weight;
          tiles.tiles.push_back(tile);
        }
      }
      sites.push_back(std::move(tiles));
    }
    table_.Install(slot, sites);
  }
  const OperatorShape& shape() const { return shape_; }

  AlignedVector<uint16_t> Encode(const AlignedVector<float>& values) const {
    AlignedVector<uint16_t> out(values.size());
    for (size_t i = 0; i < values.size(); ++i) out[i] = Bits(values[i]);
    return out;
  }
  // 16 x 16, one fractal.
  AlignedVector<uint16_t> Identity() const {
    AlignedVector<uint16_t> out(256, 0);
    for (size_t i = 0; i < 16; ++i) out[i * 17] = Bits(1.0f);
    return out;
  }

 private:
  static bool InB(const OperatorShape& shape) { return shape.arch == Arch::k2201 && !shape.split; }
  static lora::SiteId Site(size_t part) {
    return lora::SiteSpace{1}.Linear(0, static_cast<lora::Projection>(part));
  }
  Kernel KernelFor(YKind kind) const {
    if (shape_.arch == Arch::k2002) return lora_linear_310;
    const bool f16 = shape_.dtype == DType::kF16;
    if (shape_.split) return SplitKernelFor(kind);
    switch (kind) {
      case YKind::kFused:
        return f16 ? lora_linear_f16 : lora_linear_bf16;
      case YKind::kAtomic:
        return f16 ? lora_linear_f16_atomic : lora_linear_bf16_atomic;
      case YKind::kF32:
        return f16 ? lora_linear_f16_f32 : lora_linear_bf16_f32;
    }
    return nullptr;
  }

  Kernel SplitKernelFor(YKind kind) const {
    const bool f16 = shape_.dtype == DType::kF16;
    switch (kind) {
      case YKind::kFused:
        return f16 ? lora_linear_split_f16 : lora_linear_split_bf16;
      case YKind::kAtomic:
        return f16 ? lora_linear_split_f16_atomic : lora_linear_split_bf16_atomic;
      case YKind::kF32:
        return f16 ? lora_linear_split_f16_f32 : lora_linear_split_bf16_f32;
    }
    return nullptr;
  }

  void InstallSlot(int32_t slot) {
    std::vector<lora::WeightTable::SiteTiles> sites;
    std::vector<Factors> parts;
    const int32_t rank = shape_.ranks[static_cast<size_t>(slot)];
    const double scale = shape_.scales.empty() ? 1.0 : shape_.scales[static_cast<size_t>(slot)];
    for (size_t part = 0; part < shape_.n.size(); ++part) {
      Factors f;
      f.rank = rank;
      f.a = RandomRounded(rank * shape_.k, 1.7f / std::sqrt(static_cast<float>(shape_.k)));
      const AlignedVector<float> b = RandomRounded(shape_.n[part] * rank, 0.5f);
      const AlignedVector<uint16_t> a_bits = Encode(f.a);
      const AlignedVector<uint16_t> b_bits = Encode(b);
      f.s_scale = InB(shape_) ? 1.0 : static_cast<float>(scale);
      for (const float value : b) f.b.push_back(Round(double{value} * scale / f.s_scale));
      lora::SiteFactors factors;
      factors.site = Site(part);
      factors.rank = rank;
      factors.shape = {shape_.k, shape_.n[part]};
      factors.a = {reinterpret_cast<const std::byte*>(a_bits.data()), shape_.dtype};
      factors.b = {reinterpret_cast<const std::byte*>(b_bits.data()), shape_.dtype};
      factors.scale = scale;
      lora::WeightTable::SiteTiles tiles;
      tiles.site = factors.site;
      for (int32_t begin = 0; begin < rank; begin += 16) {
        tiles_.push_back(Buffer::Allocate(packer_.TileBytes(lora::TileShapeOf(factors)),
                                          MemoryTag::kOther, nullptr)
                             .value());
        packer_.PackTile(factors, begin, tiles_.back().data());
        tiles.tiles.push_back({tiles_.back().data(),
                               static_cast<float>(scale),
                               shape_.dtype,
                               {static_cast<uint32_t>(tiles_.size() - 1)}});
      }
      if (rank > 0) sites.push_back(tiles);
      parts.push_back(std::move(f));
    }
    factors_.push_back(std::move(parts));
    table_.Install(lora::SlotId{slot}, sites);
  }

  OperatorShape shape_;
  AscendTilePacker packer_;
  lora::WeightTable table_;
  std::vector<Buffer> tiles_;
  std::vector<std::vector<Factors>> factors_;  // [slot][part]
  std::mt19937 random_;
};

}  // namespace lorica::ascend
