#include "lorica/engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lorica/engine/philox.h"

namespace lorica::engine {
namespace {

using Candidate = SamplerScratch::Candidate;

// Best first, ties to the lower id.
bool Better(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

bool IsRaw(const SampleInput& input) {
  const SamplingParams& params = *input.params;
  return input.forbidden.empty() && params.logit_bias.empty() && params.repetition_penalty == 1.0 &&
         params.presence_penalty == 0.0 && params.frequency_penalty == 0.0;
}

void Process(const SampleInput& input, std::vector<double>* logits) {
  logits->assign(input.logits.begin(), input.logits.end());
  for (int32_t token : input.forbidden) {
    (*logits)[static_cast<size_t>(token)] = -std::numeric_limits<double>::infinity();
  }
  for (const auto& [token, bias] : input.params->logit_bias) {
    (*logits)[static_cast<size_t>(token)] += bias;
  }
  input.counts->Penalise(input.guessed, *logits);
}

int32_t Argmax(std::span<const double> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// The candidate at which the running sum of weights passes `target`. Rounding may leave the target
// at the sum of all: then the last one with a weight.
int32_t Walk(std::span<const Candidate> candidates, double target) {
  double sum = 0.0;
  int32_t last = candidates.front().id;
  for (const Candidate& candidate : candidates) {
    if (candidate.weight == 0.0) continue;
    sum += candidate.weight;
    last = candidate.id;
    if (sum > target) break;
  }
  return last;
}

double WeightSum(std::span<const Candidate> candidates) {
  double sum = 0.0;
  for (const Candidate& candidate : candidates) sum += candidate.weight;
  return sum;
}

// Every token that min_p leaves, by id.
void Gather(const SamplingParams& params, std::span<const double> logits, double greatest,
            std::vector<Candidate>* candidates) {
  candidates->clear();
  for (size_t id = 0; id < logits.size(); ++id) {
    const double weight = std::exp((logits[id] - greatest) / params.temperature);
    // The best has weight 1, so this is p < min_p * p_best.
    if (weight < params.min_p) continue;
    candidates->push_back({logits[id], weight, static_cast<int32_t>(id)});
  }
}

void KeepTopK(size_t k, std::vector<Candidate>* candidates) {
  if (k < candidates->size()) {
    std::nth_element(candidates->begin(), candidates->begin() + static_cast<ptrdiff_t>(k),
                     candidates->end(), Better);
    candidates->resize(k);
  }
  std::sort(candidates->begin(), candidates->end(), Better);
}

// The smallest set of the best whose weights reach top_p of the sum; the one that reaches it is in.
void KeepTopP(double top_p, std::vector<Candidate>* candidates) {
  const double enough = top_p * WeightSum(*candidates);
  double sum = 0.0;
  size_t sorted = 0;
  // Sorted in growing pieces: the set is mostly tens of tokens out of a vocabulary of 10^5.
  for (size_t piece = 256; sorted < candidates->size(); piece *= 8) {
    const auto begin = candidates->begin() + static_cast<ptrdiff_t>(sorted);
    const size_t count = std::min(piece, candidates->size() - sorted);
    const auto end = begin + static_cast<ptrdiff_t>(count);
    if (end != candidates->end()) std::nth_element(begin, end, candidates->end(), Better);
    std::sort(begin, end, Better);
    for (auto it = begin; it != end; ++it) {
      sum += it->weight;
      if (sum >= enough) {
        candidates->erase(it + 1, candidates->end());
        return;
      }
    }
    sorted += count;
  }
}

}  // namespace

int32_t SampleToken(const SampleInput& input, SamplerScratch* scratch) {
  const SamplingParams& params = *input.params;
  if (params.temperature == 0.0 && IsRaw(input)) return input.stats->argmax;

  std::vector<double>& logits = scratch->logits;
  Process(input, &logits);
  const int32_t best = Argmax(logits);
  const double greatest = logits[static_cast<size_t>(best)];
  if (params.temperature == 0.0 || std::isinf(greatest)) return best;

  std::vector<Candidate>& candidates = scratch->candidates;
  Gather(params, logits, greatest, &candidates);
  if (params.top_k > 0) KeepTopK(static_cast<size_t>(params.top_k), &candidates);
  if (params.top_p < 1.0) KeepTopP(params.top_p, &candidates);
  return Walk(candidates, UniformDraw(input.seed, input.position) * WeightSum(candidates));
}

}  // namespace lorica::engine
