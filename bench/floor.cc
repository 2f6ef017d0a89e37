#include "bench/floor.h"

#include <algorithm>
#include <string>

#include "bench/timing.h"
#include "lorica/base/machine.h"

namespace lorica::bench {
namespace {

// Read in turn, so that each slice comes from memory and not from a cache of 32 MB.
constexpr int64_t kSliceBytes = int64_t{32} << 20;
constexpr int64_t kSlices = 4;
constexpr int64_t kMultiplyRounds = 100000;

}  // namespace

Result<Floor> Floor::Create(ThreadPool* pool, std::string_view backend) {
  const size_t begin = backend.find(' ') + 1;
  const size_t end = std::min(backend.find(' ', begin), backend.size());
  const std::string_view isa = backend.substr(begin, end - begin);
  const FloorKernels kernels = FloorKernelsFor(isa);
  if (kernels.read == nullptr) {
    return InvalidArgument("no floor for instruction set '" + std::string(isa) + "'");
  }
  LORICA_ASSIGN_OR_RETURN(Buffer data,
                          Buffer::Allocate(kSliceBytes * kSlices, MemoryTag::kOther, nullptr));
  // Every page is written once: pages never written share one page of zeros.
  const std::span<float> floats = data.as<float>();
  for (size_t i = 0; i < floats.size(); ++i) floats[i] = static_cast<float>(i & 255);
  Floor floor(pool, std::move(data), kernels);
  floor.has_dot_ = backend.substr(end) == " bf16";
  if (isa != "avx512" || ReadMachineFacts().has_avx512_vnni) floor.bytes_ = ByteFloorFor(isa);
  floor.sinks_.resize(static_cast<size_t>(pool->threads()) * 16);
  return floor;
}

void Floor::Sample() {
  const int64_t slice_floats = kSliceBytes / static_cast<int64_t>(sizeof(float));
  const float* slice = data_.as<float>().data() + next_slice_ * slice_floats;
  next_slice_ = (next_slice_ + 1) % kSlices;
  const double read_seconds = Seconds(pool_->threads(), [&] {
    pool_->Run([&](const TeamMember& member) {
      const IndexRange range = SplitRange(slice_floats / 1024, member);
      sinks_[static_cast<size_t>(member.thread) * 16] +=
          kernels_.read(slice + range.begin * 1024, range.size() * 1024);
    });
  });
  read_rates_.push_back(static_cast<double>(kSliceBytes) / read_seconds);
  multiply_rates_.push_back(TimeMultiply(kernels_.multiply, kernels_.flops_per_round));
  if (has_dot_) dot_rates_.push_back(TimeMultiply(&MultiplyByDot, kDotFlopsPerRound));
  if (bytes_.multiply != nullptr) {
    byte_rates_.push_back(TimeMultiply(bytes_.multiply, bytes_.operations_per_round));
  }
}

double Floor::TimeMultiply(float (*multiply)(int64_t), int64_t flops_per_round) {
  const double seconds = Seconds(pool_->threads(), [&] {
    pool_->Run([&](const TeamMember& member) {
      sinks_[static_cast<size_t>(member.thread) * 16] += multiply(kMultiplyRounds);
    });
  });
  return static_cast<double>(kMultiplyRounds * flops_per_round) * pool_->threads() / seconds;
}

void Floor::Clear() {
  read_rates_.clear();
  multiply_rates_.clear();
  dot_rates_.clear();
  byte_rates_.clear();
}

double Floor::ReadRate() const { return Summarize(read_rates_).median; }
double Floor::ByteRate() const { return byte_rates_.empty() ? 0.0 : Summarize(byte_rates_).median; }
double Floor::MultiplyRate(kernels::ActivationType type) const {
  const bool dot = has_dot_ && type == kernels::ActivationType::kBf16;
  return Summarize(dot ? dot_rates_ : multiply_rates_).median;
}

}  // namespace lorica::bench
