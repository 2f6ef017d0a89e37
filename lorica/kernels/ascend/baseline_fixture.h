// For tests and the cycle table: the two opponents on the AI Core model. The vector kernels run two
// launches a part; one adapter at a time is the operator itself, launched once an adapter.
#pragma once

#include <algorithm>
#include <map>

#include "lorica/kernels/ascend/operator_fixture.h"
#include "lorica/kernels/ascend/vector_baseline.h"

namespace lorica::ascend {

struct BaselineResult {
  double cycles = 0;  // the launches' sum
  int64_t launches = 0;
  SimReport report;  // the first that is not ok
  std::vector<Timeline> timelines;
};

// Adapters of ranks 8, 16, 32 or 64 and scale 1, f16. y of `step` becomes the result.
inline BaselineResult RunVectorBaseline(Simulator* simulator, const OperatorProblem& problem,
                                        bool in_l2, const LaunchOptions& base_options,
                                        OperatorProblem::Step* step) {
  BaselineResult result;
  const OperatorShape& shape = problem.shape();
  for (size_t part = 0; part < shape.n.size(); ++part) {
    const auto n = static_cast<size_t>(shape.n[part]);
    std::map<int32_t, std::pair<AlignedVector<uint16_t>, AlignedVector<uint16_t>>> weights;
    std::vector<uint32_t> rows;
    for (size_t row = 0; row < step->slots.size(); ++row) {
      if (step->slots[row] != lora::kBaseModel) rows.push_back(static_cast<uint32_t>(row));
    }
    AlignedVector<uint32_t> words(kVectorHead + rows.size() * kTokenWords, 0);
    const auto cores =
        std::min<size_t>(rows.size(), static_cast<size_t>(simulator->soc().vector_cores));
    if (cores == 0) continue;
    const size_t per_core = (rows.size() + cores - 1) / cores;
    words[kVectorTokens] = static_cast<uint32_t>(rows.size());
    words[kVectorInner] = static_cast<uint32_t>(shape.k);
    words[kVectorPitch] = static_cast<uint32_t>(n);
    words[kVectorPerCore] = static_cast<uint32_t>(per_core);
    GmOptions gm;
    gm.in_l2 = in_l2;
    GmOptions warm;
    warm.in_l2 = true;
    simulator->RemoveAllGm();
    for (size_t i = 0; i < rows.size(); ++i) {
      const lora::SlotId slot = step->slots[rows[i]];
      const auto& f = problem.factors(slot, part);
      auto& [a, b] = weights[slot.index];
      if (a.empty()) {
        a = problem.Encode(f.a);
        // Half of B and twice the scale, so that the scale is seen to act.
        AlignedVector<float> halved = f.b;
        for (float& value : halved) value *= 0.5f;
        b = problem.Encode(halved);
        const std::string name = std::to_string(slot.index);
        simulator->AddGm("A" + name, a.data(), static_cast<int64_t>(a.size() * 2), gm);
        simulator->AddGm("B" + name, b.data(), static_cast<int64_t>(b.size() * 2), gm);
      }
      const auto a_at = reinterpret_cast<uint64_t>(a.data());
      const auto b_at = reinterpret_cast<uint64_t>(b.data());
      uint32_t* word = words.data() + kVectorHead + i * kTokenWords;
      word[kTokenRow] = rows[i];
      word[kTokenRank] = static_cast<uint32_t>(f.rank);
      word[kTokenALow] = static_cast<uint32_t>(a_at);
      word[kTokenAHigh] = static_cast<uint32_t>(a_at >> 32);
      word[kTokenBLow] = static_cast<uint32_t>(b_at);
      word[kTokenBHigh] = static_cast<uint32_t>(b_at >> 32);
      word[kTokenScale] = std::bit_cast<uint32_t>(2.0f);
    }
    AlignedVector<uint16_t> x = problem.Encode(step->x);
    AlignedVector<uint16_t> y = problem.Encode(step->y[part]);
    AlignedVector<float> s(rows.size() * kVectorMaxRank, 0.0f);
    simulator->AddGm("x", x.data(), static_cast<int64_t>(x.size() * 2), warm);
    simulator->AddGm("y", y.data(), static_cast<int64_t>(y.size() * 2), warm);
    simulator->AddGm("s", s.data(), static_cast<int64_t>(s.size() * 4), warm);
    simulator->AddGm("program", words.data(), static_cast<int64_t>(words.size() * 4), warm);
    LaunchOptions options = base_options;
    options.type = KernelType::kAivOnly;
    options.blocks = static_cast<int32_t>((rows.size() + per_core - 1) / per_core);
    const auto bytes = [](auto* v) { return reinterpret_cast<uint8_t*>(v->data()); };
    for (int phase = 0; phase < 2; ++phase) {
      LaunchResult launch = simulator->Launch(options, [&] {
        if (phase == 0) {
          lora_shrink_vector(bytes(&x), bytes(&words), bytes(&s));
        } else {
          lora_expand_vector(bytes(&y), bytes(&words), bytes(&s));
        }
      });
      result.cycles += launch.timeline.cycles;
      ++result.launches;
      if (!launch.report.ok() && result.report.ok()) result.report = launch.report;
      result.timelines.push_back(std::move(launch.timeline));
    }
    simulator->RemoveAllGm();
    for (size_t i = 0; i < y.size(); ++i) step->y[part][i] = problem.Value(y[i]);
  }
  return result;
}

// The operator, one launch for each adapter of the step.
inline BaselineResult RunOneAtATime(Simulator* simulator, OperatorProblem* problem,
                                    const OperatorProblem::RunOptions& options,
                                    OperatorProblem::Step* step) {
  BaselineResult result;
  for (int32_t slot = 0; slot < static_cast<int32_t>(problem->shape().ranks.size()); ++slot) {
    OperatorProblem::Step one = *step;
    bool any = false;
    for (lora::SlotId& s : one.slots) {
      if (s.index != slot) s = lora::kBaseModel;
      any = any || s.index == slot;
    }
    if (!any) continue;
    auto run = problem->Run(simulator, options, &one);
    step->y = one.y;
    result.cycles += run.launch.timeline.cycles;
    ++result.launches;
    if (!run.launch.report.ok() && result.report.ok()) result.report = run.launch.report;
    result.timelines.push_back(std::move(run.launch.timeline));
  }
  return result;
}

}  // namespace lorica::ascend
