#include "lorica/kernels/ascend/sim/simulator.h"

#include <thread>
#include <utility>
#include <vector>

#include "lorica/kernels/ascend/sim/core.h"
#include "lorica/kernels/ascend/sim/cross_core.h"
#include "lorica/kernels/ascend/sim/timeline_model.h"

namespace lorica::ascend {

struct Simulator::Impl {
  SocSpec soc;
  GlobalMemory gm;
  std::vector<std::unique_ptr<Core>> cores;  // kept from launch to launch
};

namespace {

struct Role {
  int32_t block = 0;
  int32_t sub_block = 0;
  int32_t ratio = 1;
  bool cube = true;
  bool vector = false;
};

struct Kind {
  int32_t cubes = 0;    // a block
  int32_t vectors = 0;  // a block
  bool cross = false;
};

Kind KindOf(KernelType type) {
  switch (type) {
    case KernelType::kAicOnly:
      return {1, 0, false};
    case KernelType::kAivOnly:
      return {0, 1, false};
    case KernelType::kMixAic1_0:
      return {1, 0, true};
    case KernelType::kMixAic1_1:
      return {1, 1, true};
    case KernelType::kMixAic1_2:
      return {1, 2, true};
    case KernelType::kMixAiv1_0:
      return {0, 1, true};
  }
  return {};
}

std::vector<Role> RolesOf(const SocSpec& soc, const LaunchOptions& options) {
  std::vector<Role> roles;
  const Kind kind = KindOf(options.type);
  for (int32_t b = 0; b < options.blocks; ++b) {
    if (soc.arch == 2002) {
      roles.push_back({b, 0, 1, true, true});
      continue;
    }
    if (kind.cubes > 0) roles.push_back({b, 0, kind.vectors, true, false});
    for (int32_t v = 0; v < kind.vectors; ++v) {
      roles.push_back({b, v, kind.vectors, false, true});
    }
  }
  return roles;
}

void RunOne(Core* core, const std::function<void()>& kernel) {
  CurrentCore() = core;
  kernel();
  CurrentCore() = nullptr;
}

void RunTogether(const std::vector<Core*>& cores, CrossCore* cross,
                 const std::function<void()>& kernel) {
  std::vector<std::thread> threads;
  threads.reserve(cores.size());
  for (Core* core : cores) {
    threads.emplace_back([core, cross, &kernel] {
      cross->Begin(*core);
      RunOne(core, kernel);
      cross->End(*core);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void CheckEnd(Core* core) {
  for (int from = 0; from < kPipes; ++from) {
    for (int to = 0; to < kPipes; ++to) {
      for (int id = 0; id < 8; ++id) {
        const HardFlag& flag = core->flags[from][to][id];
        if (!flag.set) continue;
        core->Error(ErrorKind::kFlagLeftOver, "flag %s_%s %d is still set at the end, by %s",
                    PipeName(from), PipeName(to), id, core->Describe(flag.instr).c_str());
      }
    }
  }
  for (const auto& [buffer, line] : core->dirty_lines) {
    const GmBuffer* owner = core->gm->ById(buffer);
    core->Error(ErrorKind::kScalarCache,
                "line [%lld, %lld) of GM %s was written by SetValue and never cleaned",
                static_cast<long long>(line * 64), static_cast<long long>(line * 64 + 64),
                owner == nullptr ? "?" : owner->name.c_str());
  }
}

}  // namespace

Simulator::Simulator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Simulator::~Simulator() = default;

Result<std::unique_ptr<Simulator>> Simulator::Open(std::string_view name) {
  Result<SocSpec> soc = FindSoc(name);
  if (!soc.ok()) return soc.status();
  auto impl = std::make_unique<Impl>();
  impl->soc = *soc;
  return std::unique_ptr<Simulator>(new Simulator(std::move(impl)));
}

const SocSpec& Simulator::soc() const { return impl_->soc; }
void Simulator::AddGm(std::string name, void* data, int64_t bytes, GmOptions options) {
  impl_->gm.Add(std::move(name), data, bytes, options);
}
void Simulator::RemoveGm(const void* data) { impl_->gm.Remove(data); }
void Simulator::RemoveAllGm() { impl_->gm.Clear(); }

LaunchResult Simulator::Launch(const LaunchOptions& options, const std::function<void()>& kernel) {
  LaunchResult result;
  const Kind kind = KindOf(options.type);
  const SocSpec& soc = impl_->soc;
  const int32_t most = soc.arch == 2002 || kind.cubes > 0 ? soc.cube_cores : soc.vector_cores;
  if (options.blocks < 1 || options.blocks > most || (soc.arch == 2002 && kind.cross)) {
    result.report.error_count = 1;
    result.report.errors.push_back({ErrorKind::kBadArgument, 0,
                                    "a launch of " + std::to_string(options.blocks) +
                                        " blocks: " + std::string(soc.name) + " has " +
                                        std::to_string(most) + " such cores" +
                                        (soc.arch == 2002 ? " and no cross-core flags" : "")});
    return result;
  }
  const std::vector<Role> roles = RolesOf(soc, options);
  while (impl_->cores.size() < roles.size()) {
    impl_->cores.push_back(std::make_unique<Core>(&impl_->soc, &impl_->gm));
  }
  impl_->gm.BeginLaunch();
  std::vector<Core*> cores;
  for (size_t i = 0; i < roles.size(); ++i) {
    Core* core = impl_->cores[i].get();
    core->Reset(static_cast<int32_t>(i), roles[i].cube, roles[i].vector, &result.report);
    core->block = roles[i].block;
    core->blocks = options.blocks;
    core->sub_block = roles[i].sub_block;
    core->ratio = roles[i].ratio;
    core->auto_sync = options.auto_sync && roles[i].vector;
    core->least_row_blocks = options.mmad_least_row_blocks > 0 ? options.mmad_least_row_blocks
                                                               : soc.mmad_least_row_blocks;
    core->cross = nullptr;
    cores.push_back(core);
  }
  CrossCore cross(cores);
  if (kind.cross) {
    for (Core* core : cores) core->cross = &cross;
    RunTogether(cores, &cross, kernel);
    cross.ReportLeftOver(&result.report);
  } else {
    for (Core* core : cores) RunOne(core, kernel);
  }
  for (Core* core : cores) CheckEnd(core);
  CheckGmRaces(&impl_->gm, impl_->cores, &result.report);
  if (options.timeline && result.report.ok()) {
    result.timeline = ModelTime(options, impl_->soc, cores, cross.waits(), &impl_->gm);
  }
  return result;
}

}  // namespace lorica::ascend
