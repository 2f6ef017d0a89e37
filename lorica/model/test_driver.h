// For tests: a model with adapters hot in slots 0, 1, ..., and a driver that runs prompts through
// the transformer in mixed, chunked steps as the engine would. Tests only; one thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "lorica/base/check.h"
#include "lorica/kernels/backend.h"
#include "lorica/model/transformer.h"

namespace lorica::model::testing {

// Adapters packed straight into a weight table, without pool and cache.
class TestAdapters {
 public:
  TestAdapters(const Model& model, int32_t slots) : model_(model), table_(model.sites(), slots) {}

  void Install(lora::SlotId slot, const lora::Adapter& adapter) {
    const lora::TilePacker& packer = model_.backend().tile_packer();
    std::vector<lora::WeightTable::SiteTiles> sites;
    for (const lora::SiteFactors& factors : adapter.sites()) {
      lora::WeightTable::SiteTiles tiles{factors.site, {}};
      const int64_t bytes = packer.TileBytes(lora::TileShapeOf(factors));
      for (int32_t rank = 0; rank < factors.rank; rank += packer.rank_quantum()) {
        auto buffer = Buffer::Allocate(bytes, MemoryTag::kOther, nullptr);
        LORICA_CHECK(buffer.ok());
        packer.PackTile(factors, rank, buffer->data());
        tiles.tiles.push_back({.address = buffer->data(),
                               .scale = static_cast<float>(factors.scale),
                               .dtype = lora::TileDType(factors),
                               .handle = {static_cast<uint32_t>(buffers_.size())}});
        buffers_.push_back(std::move(buffer).value());
      }
      sites.push_back(std::move(tiles));
    }
    table_.Install(slot, sites);
  }

  const lora::WeightTable& table() const { return table_; }

 private:
  const Model& model_;
  lora::WeightTable table_;
  std::vector<Buffer> buffers_;
};

struct Job {
  std::vector<int32_t> tokens;
  lora::SlotId slot = lora::kBaseModel;
  int32_t generate = 0;  // greedy tokens after the prompt

  // Filled by the driver.
  std::vector<double> log_probs = {};           // of tokens[1..], prompt and generated
  std::vector<std::vector<float>> logits = {};  // of each wanted position, when kept
  std::vector<int32_t> pages = {};
};

struct DriveOptions {
  int32_t max_rows = 64;  // of a step
  int32_t chunk = 64;     // of one job in a step
  DType kv_dtype = DType::kF32;
  int32_t first_page = 0;  // rotates page ids, so that jobs never have the same pages twice
  bool keep_logits = false;
  // Logits are wanted of every n-th position, and of those that a token is chosen after.
  int32_t logit_every = 1;
  uint8_t stale = 0;  // what the pages' bytes hold before: 0xff makes every element a NaN
};

class Driver {
 public:
  Driver(const Model& model, const lora::WeightTable& table, MachineContext* context)
      : model_(model), table_(table), context_(context) {}

  void Run(std::vector<Job>* jobs, const DriveOptions& options) {
    const ModelConfig& config = model_.config();
    auto transformer = Transformer::Create(
        &model_, {.max_rows = options.max_rows, .max_positions = config.max_positions}, context_);
    LORICA_CHECK(transformer.ok());
    int32_t page_count = 0;
    std::vector<size_t> prompt_size;
    std::vector<size_t> done(jobs->size(), 0);
    for (Job& job : *jobs) {
      prompt_size.push_back(job.tokens.size());
      page_count += PagesOf(job);
    }
    kernels::KvLayout layout{.dtype = options.kv_dtype,
                             .layers = config.layers,
                             .kv_heads = config.kv_heads,
                             .head_dim = config.head_dim};
    auto pages = KvPages::Create(layout, page_count * layout.PageBytes(), nullptr);
    LORICA_CHECK(pages.ok());
    std::memset(pages->data(), options.stale, static_cast<size_t>(page_count * layout.PageBytes()));
    int32_t next_page = 0;
    int32_t stride = 7;  // scatters the pages of a job; coprime, so that no page comes twice
    while (std::gcd(stride, page_count) != 1) ++stride;
    for (Job& job : *jobs) {
      job.pages.clear();
      for (int32_t i = 0; i < PagesOf(job); ++i) {
        job.pages.push_back((next_page++ * stride + options.first_page) % page_count);
      }
    }
    for (bool any = true; any;) {
      Batch batch;
      std::vector<std::pair<size_t, size_t>> owner;  // of a row: job, position
      for (size_t j = 0; j < jobs->size(); ++j) AddRows(*jobs, options, j, &done, &batch, &owner);
      any = batch.rows() > 0;
      if (!any) break;
      (*transformer)->Plan(batch, table_);
      (*transformer)->Forward(batch, &*pages);
      const auto rows = static_cast<int32_t>(batch.logit_rows.size());
      for (int32_t begin = 0; begin < rows; begin += kLogitRows) {
        const int32_t count = std::min(kLogitRows, rows - begin);
        const Transformer::Logits logits = (*transformer)->ComputeLogits(begin, count);
        for (int32_t r = 0; r < count; ++r) {
          const auto [j, position] = owner[static_cast<size_t>(begin + r)];
          Take(logits, r, position, prompt_size[j], options.keep_logits, &(*jobs)[j]);
        }
      }
    }
  }

 private:
  static int32_t PagesOf(const Job& job) {
    const auto tokens = static_cast<int32_t>(job.tokens.size()) + job.generate;
    return (tokens + kernels::kPageTokens - 1) / kernels::kPageTokens;
  }

  static void AddRows(const std::vector<Job>& jobs, const DriveOptions& options, size_t j,
                      std::vector<size_t>* done, Batch* batch,
                      std::vector<std::pair<size_t, size_t>>* owner) {
    const Job& job = jobs[j];
    const size_t room = static_cast<size_t>(options.max_rows - batch->rows());
    const size_t left = job.tokens.size() - (*done)[j];
    const size_t rows = std::min({room, left, static_cast<size_t>(options.chunk)});
    if (rows == 0) return;
    const auto begin = static_cast<int32_t>((*done)[j]);
    batch->sequences.push_back({.row_begin = static_cast<int32_t>(batch->rows()),
                                .rows = static_cast<int32_t>(rows),
                                .position_begin = begin,
                                .pages = job.pages.data()});
    for (size_t i = 0; i < rows; ++i, ++(*done)[j]) {
      const bool chooses = (*done)[j] + 1 == job.tokens.size();
      if (chooses || ((*done)[j] + 1) % static_cast<size_t>(options.logit_every) == 0) {
        batch->logit_rows.push_back(static_cast<int32_t>(batch->rows()));
        owner->push_back({j, (*done)[j]});
      }
      batch->tokens.push_back(job.tokens[(*done)[j]]);
      batch->positions.push_back(static_cast<int32_t>((*done)[j]));
      batch->slots.push_back(job.slot);
    }
  }

  static void Take(const Transformer::Logits& logits, int32_t r, size_t position, size_t prompt,
                   bool keep, Job* job) {
    const float* values = logits.values + r * logits.stride;
    const kernels::RowStats& stats = logits.stats[static_cast<size_t>(r)];
    if (keep) job->logits.emplace_back(values, values + logits.stride);
    if (position + 1 == job->tokens.size()) {
      if (job->tokens.size() == prompt + static_cast<size_t>(job->generate)) return;
      job->tokens.push_back(stats.argmax);
    }
    const auto next = static_cast<size_t>(job->tokens[position + 1]);
    job->log_probs.push_back(double{values[next]} - double{stats.max} - std::log(stats.sum_exp));
  }

  const Model& model_;
  const lora::WeightTable& table_;
  MachineContext* context_;
};

// Root mean square of the difference of two runs' logits over that of the logits.
inline double LogitDistance(const std::vector<Job>& a, const std::vector<Job>& b) {
  double difference = 0.0;
  double size = 0.0;
  for (size_t j = 0; j < a.size(); ++j) {
    for (size_t i = 0; i < a[j].logits.size(); ++i) {
      for (size_t v = 0; v < a[j].logits[i].size(); ++v) {
        const double want = a[j].logits[i][v];
        difference += (want - b[j].logits[i][v]) * (want - b[j].logits[i][v]);
        size += want * want;
      }
    }
  }
  return std::sqrt(difference / size);
}

}  // namespace lorica::model::testing
