// For tests: a linear call with adapters as plain numbers, and what is needed to run it on any
// backend, any rows, any order. Single-threaded use; backends and contexts outlive it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "lorica/base/check.h"
#include "lorica/base/machine_context.h"
#include "lorica/kernels/backend.h"

namespace lorica::kernels {

inline float RoundTo(DType dtype, float value) {
  if (dtype == DType::kBF16) return Bf16ToF32(F32ToBf16(value));
  if (dtype == DType::kF16) return F16ToF32(F32ToF16(value));
  return value;
}

inline std::vector<float> RandomFloats(int64_t n, DType dtype, float spread, std::mt19937* random) {
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> out(static_cast<size_t>(n));
  for (float& v : out) v = RoundTo(dtype, normal(*random));
  return out;
}

class VectorRows : public RowSource {
 public:
  VectorRows(const std::vector<float>* values, int64_t n, int64_t k)
      : values_(values), n_(n), k_(k) {}
  int64_t n() const override { return n_; }
  int64_t k() const override { return k_; }
  void ReadRow(int64_t n, std::span<float> row) const override {
    std::copy_n(values_->data() + n * k_, k_, row.data());
  }

 private:
  const std::vector<float>* values_;
  int64_t n_;
  int64_t k_;
};

// Factors of one slot at one part; rank 0: the slot does not act there.
struct FactorValues {
  int32_t rank = 0;
  double scale = 1.0;
  DType dtype = DType::kBF16;
  std::vector<float> a;  // [rank, K]
  std::vector<float> b;  // [N, rank]
};

struct LinearProblem {
  int64_t k = 0;
  DType weight_dtype = DType::kBF16;
  ActivationType activation_type = ActivationType::kF32;
  bool add_to_output = false;
  Combine combine = Combine::kNone;
  std::vector<int64_t> n;                           // of each part
  std::vector<std::vector<float>> w;                // of each part, [N, K]
  std::vector<std::vector<float>> bias;             // of each part, empty: none
  std::vector<std::vector<FactorValues>> adapters;  // [slot][part]
};

struct ProblemShape {
  int64_t k = 0;
  std::vector<int64_t> n;
  std::vector<int32_t> ranks;  // of each slot
  DType weight_dtype = DType::kBF16;
  DType factor_dtype = DType::kBF16;
};

inline LinearProblem RandomProblem(const ProblemShape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  LinearProblem problem;
  problem.k = shape.k;
  problem.n = shape.n;
  problem.weight_dtype = shape.weight_dtype;
  const float w_spread = 1.0f / std::sqrt(static_cast<float>(shape.k));
  for (size_t part = 0; part < shape.n.size(); ++part) {
    problem.w.push_back(
        RandomFloats(shape.n[part] * shape.k, shape.weight_dtype, w_spread, &random));
    problem.bias.push_back(part % 2 == 0 ? RandomFloats(shape.n[part], DType::kF32, 1.0f, &random)
                                         : std::vector<float>());
  }
  for (const int32_t rank : shape.ranks) {
    std::vector<FactorValues> parts;
    for (const int64_t n : shape.n) {
      FactorValues f;
      f.rank = rank;
      f.scale = 0.5 + 0.25 * rank;
      f.dtype = shape.factor_dtype;
      f.a = RandomFloats(rank * shape.k, f.dtype, w_spread, &random);
      f.b = RandomFloats(n * rank, f.dtype, 0.3f, &random);
      parts.push_back(f);
    }
    problem.adapters.push_back(parts);
  }
  return problem;
}

// A problem packed for one backend.
class PackedProblem {
 public:
  PackedProblem(const LinearProblem& problem, const Backend& backend, MachineContext* context)
      : problem_(problem),
        backend_(backend),
        table_(lora::SiteSpace{1}, std::max<int32_t>(1, SlotCount())) {
    for (size_t part = 0; part < problem.n.size(); ++part) {
      const VectorRows rows(&problem.w[part], problem.n[part], problem.k);
      weights_.push_back(backend.PackWeight(rows, problem.weight_dtype, context).value());
    }
    for (int32_t slot = 0; slot < SlotCount(); ++slot) InstallSlot(slot);
  }

  struct Step {
    std::vector<float> x;  // [rows, K]
    std::vector<lora::SlotId> slots;
    std::vector<std::vector<float>> y;  // of each part, [rows, N]; in and out
    Trace* trace = nullptr;
  };

  void Run(ThreadPool* pool, Step* step) const {
    const auto rows = static_cast<int64_t>(step->slots.size());
    lora::SegmentTable segments;
    segments.Build(step->slots);
    lora::LoraPlan plan;
    lora::BuildPlan(Call(), segments, table_, backend_.plan_limits(pool->threads()), &plan);
    std::vector<LinearPart> parts(weights_.size());
    for (size_t part = 0; part < parts.size(); ++part) {
      parts[part].weight = &weights_[part];
      parts[part].site = Site(part);
      parts[part].y = step->y[part].data();
      parts[part].y_stride = problem_.n[part];
      parts[part].epilogue.add_to_output = problem_.add_to_output;
      if (!problem_.bias[part].empty()) parts[part].epilogue.bias = problem_.bias[part].data();
    }
    // Exact sizes, so that the address sanitizer sees a step over.
    std::vector<float> scratch(static_cast<size_t>(plan.s_floats), std::nanf(""));
    std::vector<float> packed(static_cast<size_t>(backend_.PackedInputFloats(rows, problem_.k)),
                              std::nanf(""));
    LinearParams params;
    params.x = step->x.data();
    params.rows = rows;
    params.x_stride = problem_.k;
    params.k = problem_.k;
    params.activation_type = problem_.activation_type;
    params.parts = parts;
    params.combine = problem_.combine;
    params.plan = &plan;
    params.segments = &segments;
    params.table = &table_;
    params.s_scratch = scratch.data();
    params.packed_x = packed.data();
    params.trace = step->trace;
    pool->Run([&](const TeamMember& member) { backend_.LoraLinear(params, member); });
  }

  // y of the parts, one after another, for rows of x taken by index.
  std::vector<std::vector<float>> Run(ThreadPool* pool, const std::vector<float>& x,
                                      const std::vector<lora::SlotId>& slots,
                                      Trace* trace = nullptr) const {
    Step step;
    step.x = x;
    step.slots = slots;
    step.trace = trace;
    for (const int64_t n : problem_.n) {
      step.y.emplace_back(slots.size() * static_cast<size_t>(n), 0.25f);
    }
    Run(pool, &step);
    return step.y;
  }

 private:
  int32_t SlotCount() const { return static_cast<int32_t>(problem_.adapters.size()); }
  static lora::SiteId Site(size_t part) {
    return lora::SiteSpace{1}.Linear(0, static_cast<lora::Projection>(part));
  }
  lora::CallSites Call() const {
    lora::CallSites call;
    call.call = lora::CallKind::kQkv;
    call.parts = static_cast<int32_t>(problem_.n.size());
    for (size_t part = 0; part < problem_.n.size(); ++part) {
      call.site[part] = Site(part);
      call.shape[part] = {problem_.k, problem_.n[part]};
    }
    return call;
  }
  static std::vector<std::byte> Encode(DType dtype, const std::vector<float>& values) {
    std::vector<std::byte> out(
        static_cast<size_t>(ElementsToBytes(dtype, static_cast<int64_t>(values.size()))));
    for (size_t i = 0; i < values.size(); ++i) {
      if (dtype == DType::kF32) {
        std::memcpy(out.data() + i * 4, &values[i], 4);
      } else {
        const uint16_t bits = dtype == DType::kBF16 ? F32ToBf16(values[i]) : F32ToF16(values[i]);
        std::memcpy(out.data() + i * 2, &bits, 2);
      }
    }
    return out;
  }
  void InstallSlot(int32_t slot) {
    const lora::TilePacker& packer = backend_.tile_packer();
    std::vector<lora::WeightTable::SiteTiles> sites;
    for (size_t part = 0; part < problem_.n.size(); ++part) {
      const FactorValues& f = problem_.adapters[static_cast<size_t>(slot)][part];
      if (f.rank == 0) continue;
      const std::vector<std::byte> a = Encode(f.dtype, f.a);
      const std::vector<std::byte> b = Encode(f.dtype, f.b);
      lora::SiteFactors factors;
      factors.site = Site(part);
      factors.rank = f.rank;
      factors.shape = {problem_.k, problem_.n[part]};
      factors.a = {a.data(), f.dtype};
      factors.b = {b.data(), f.dtype};
      factors.scale = f.scale;
      lora::WeightTable::SiteTiles tiles;
      tiles.site = factors.site;
      for (int32_t rank = 0; rank < f.rank; rank += packer.rank_quantum()) {
        tiles_.push_back(Buffer::Allocate(packer.TileBytes(lora::TileShapeOf(factors)),
                                          MemoryTag::kOther, nullptr)
                             .value());
        packer.PackTile(factors, rank, tiles_.back().data());
        lora::TileRef ref;
        ref.address = tiles_.back().data();
        ref.scale = static_cast<float>(f.scale);
        ref.dtype = f.dtype;
        ref.handle = {static_cast<uint32_t>(tiles_.size() - 1)};
        tiles.tiles.push_back(ref);
      }
      sites.push_back(tiles);
    }
    table_.Install(lora::SlotId{slot}, sites);
  }

  const LinearProblem& problem_;
  const Backend& backend_;
  lora::WeightTable table_;
  std::vector<Weight> weights_;
  std::vector<Buffer> tiles_;
};

// x rows `index` of [rows, k].
inline std::vector<float> TakeRows(const std::vector<float>& x, int64_t k,
                                   const std::vector<int32_t>& index) {
  std::vector<float> out;
  for (const int32_t row : index) {
    out.insert(out.end(), x.begin() + row * k, x.begin() + (row + 1) * k);
  }
  return out;
}

}  // namespace lorica::kernels
