#include "bench/publishing_bench.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "bench/timing.h"
#include "lorica/base/buffer.h"
#include "lorica/base/thread_priority.h"

namespace lorica::bench {
namespace {

constexpr int32_t kReplaced = 20;      // contents that publishing goes round
constexpr int32_t kStepBlock = 200;    // timed steps, alternately with and without publishing
constexpr int32_t kControlBlock = 25;  // and of each control after them
constexpr size_t kControlBytes = size_t{256} << 20;
constexpr int32_t kStepSequences = 8;

// Publishes one content after another under one name while it is told to.
class Publisher {
 public:
  Publisher(AdapterWorld* world, engine::Engine* engine, int32_t contents)
      : thread_([this, world, engine, contents] {
          // As the server's thread that takes adapters in.
          LowerThreadPriority(ThreadPriority::kBackground);
          for (int32_t i = 0; !over_.load(); ++i) {
            // Asleep in the kernel: a thread that looks now and then puts others off their core.
            idle_.store(true);
            idle_.notify_one();
            publishing_.wait(false);
            idle_.store(false);
            if (!over_.load() && world->Publish(engine, "replaced", i % contents).ok()) {
              published_.fetch_add(1);
            }
          }
        }) {}
  ~Publisher() {
    over_.store(true);
    Set(true);
    thread_.join();
  }
  void Set(bool publishing) {
    publishing_.store(publishing);
    publishing_.notify_one();
    // What it is at would still run beside the next block's steps.
    if (!publishing) idle_.wait(false);
  }
  int64_t published() const { return published_.load(); }

 private:
  std::atomic<bool> publishing_{false};
  std::atomic<bool> over_{false};
  std::atomic<bool> idle_{false};
  std::atomic<int64_t> published_{0};
  std::thread thread_;
};

// Steps, or what stands for them, timed with and without publishing.
class StepTimes {
 public:
  template <typename Call>
  void Time(bool publishing, const Call& call) {
    const int64_t switches = ThreadInvoluntarySwitches();
    const double began = NowSeconds();
    call();
    Sample& sample = samples_[publishing];
    sample.seconds.push_back(NowSeconds() - began);
    if (ThreadInvoluntarySwitches() != switches) ++sample.interrupted;
  }
  double Median() const { return Percentile(samples_[0].seconds, 0.5); }
  size_t count() const { return samples_[0].seconds.size() + samples_[1].seconds.size(); }
  // Against the median without.
  void Print(const std::string& what, std::FILE* out) const {
    for (const int with : {0, 1}) {
      const auto at = [&](double share) { return Percentile(samples_[with].seconds, share); };
      std::fprintf(out,
                   "%-39s median %7.3f ms  p99 %7.3f  p99.9 %7.3f  (%.2f and %.2f of the median "
                   "without); put off a core in %lld of %zu\n",
                   (what + (with ? " while publishing" : "")).c_str(), 1e3 * at(0.5),
                   1e3 * at(0.99), 1e3 * at(0.999), at(0.99) / Median(), at(0.999) / Median(),
                   static_cast<long long>(samples_[with].interrupted),
                   samples_[with].seconds.size());
    }
    const auto ratio = [&](double share) {
      return Percentile(samples_[1].seconds, share) / Percentile(samples_[0].seconds, share);
    };
    std::fprintf(out, "%-39s p99 %.2f, p99.9 %.2f of the same without\n", "", ratio(0.99),
                 ratio(0.999));
  }

 private:
  struct Sample {
    std::vector<double> seconds;
    int64_t interrupted = 0;
  };
  Sample samples_[2];
};

// The control: what holds up a loop on every thread that computes, which does arithmetic in
// registers or reads memory as a step does, is the machine alone.
class Control {
 public:
  explicit Control(ThreadPool* pool) : pool_(pool) {}
  // From now on it reads these bytes, round and round.
  void Read(std::span<const uint64_t> memory) { memory_ = memory; }
  // As long as `seconds`, by the best of some tries.
  void Calibrate(double seconds) {
    rounds_ = 100000;
    double best = 1.0;
    for (int i = 0; i < 20; ++i) {
      const double began = NowSeconds();
      (*this)();
      best = std::min(best, NowSeconds() - began);
    }
    rounds_ = static_cast<int64_t>(static_cast<double>(rounds_) * seconds / best);
  }
  void operator()() {
    pool_->Run([&](const TeamMember& member) {
      uint64_t x = memory_.empty() ? Spin() : Sum(member);
      kept_.store(x, std::memory_order_relaxed);  // so that it is computed
    });
    at_ += rounds_;
  }

 private:
  uint64_t Spin() const {
    uint64_t x = 0;
    for (int64_t i = 0; i < rounds_; ++i) x = x * 6364136223846793005u + 1442695040888963407u;
    return x;
  }
  uint64_t Sum(const TeamMember& member) const {
    const IndexRange mine = SplitRange(static_cast<int64_t>(memory_.size()) / kLine, member);
    uint64_t sum = 0;
    for (int64_t i = 0; i < rounds_; ++i) {
      const int64_t line = mine.begin + (at_ + i) % mine.size();
      for (int64_t j = 0; j < kLine; ++j) sum += memory_[static_cast<size_t>(line * kLine + j)];
    }
    return sum;
  }
  static constexpr int64_t kLine = 8;

  ThreadPool* pool_;
  std::span<const uint64_t> memory_;
  int64_t rounds_ = 0;
  int64_t at_ = 0;
  std::atomic<uint64_t> kept_{0};
};

}  // namespace

// Blocks of steps in turn, with and without a thread that publishes all the while. In a block the
// same number of sequences decodes at every step; prompts are not timed. After each block the
// controls, for as long as a step.
Status CompareSteps(AdapterWorld* world, std::FILE* out) {
  const AdaptersBenchOptions& options = world->options();
  const int32_t contents = std::min(kReplaced, options.adapters);
  const int32_t sequences = std::min(kStepSequences, options.clients);
  const int32_t asked = std::min(sequences, options.adapters);
  // Room for what is in flight, the current version and the next one.
  LORICA_ASSIGN_OR_RETURN(const auto engine, world->Open({asked + 4, contents}));
  LORICA_RETURN_IF_ERROR(world->PublishAll({engine.get()}, asked));
  LORICA_RETURN_IF_ERROR(world->Publish(engine.get(), "replaced", 0));
  StepTimes steps;
  StepTimes spins;
  StepTimes reads;
  Control spin(&world->context().pool);
  Control read(&world->context().pool);
  LORICA_ASSIGN_OR_RETURN(Buffer memory, Buffer::Allocate(int64_t{kControlBytes}, MemoryTag::kOther,
                                                          &world->context().ledger));
  std::memset(memory.data(), 1, kControlBytes);
  read.Read({reinterpret_cast<const uint64_t*>(memory.data()), kControlBytes / sizeof(uint64_t)});
  int64_t published = 0;
  {
    Publisher publisher(world, engine.get(), contents);
    uint32_t seed = 0;
    Status failed;
    // In pairs, so that there is one with publishing whatever was asked for.
    for (int32_t block = 0; block % 2 == 1 || block * kStepBlock < 2 * options.steps; ++block) {
      for (int32_t i = 0; i < sequences; ++i) {
        AdapterWorld::Question question;
        question.adapter = i == 0 ? "replaced" : "a" + std::to_string(i % asked);
        question.seed = ++seed;
        question.prompt = 16;
        question.tokens = kStepBlock + 8;
        const auto id = engine->Submit(AdapterWorld::Ask(question), [&](engine::Event event) {
          if (!event.status.ok()) failed = event.status;
        });
        LORICA_RETURN_IF_ERROR(id.status());
      }
      const bool with = block % 2 == 1;
      publisher.Set(with);
      // Until all decode: an adapter may have to come in first.
      while (engine->metrics().Read().running < sequences && failed.ok()) engine->Step();
      for (int i = 0; i < 4; ++i) engine->Step();
      for (int32_t i = 0; i < kStepBlock; ++i) steps.Time(with, [&] { engine->Step(); });
      if (block == 0) {
        spin.Calibrate(steps.Median());
        read.Calibrate(steps.Median());
      }
      for (int32_t i = 0; i < kControlBlock; ++i) {
        spins.Time(with, [&] { spin(); });
        reads.Time(with, [&] { read(); });
      }
      publisher.Set(false);
      engine->RunUntilIdle();
      LORICA_RETURN_IF_ERROR(failed);
    }
    published = publisher.published();
  }
  std::fprintf(out,
               "\n%zu steps of %d sequences on %d threads, in blocks of %d in turn, %lld adapters "
               "of %.1f MB published\n",
               steps.count(), sequences, world->context().pool.threads(), kStepBlock,
               static_cast<long long>(published), static_cast<double>(world->tile_bytes()) / 1e6);
  steps.Print("steps", out);
  spins.Print("spinning as long", out);
  reads.Print("reading memory as long", out);
  return OkStatus();
}

}  // namespace lorica::bench
