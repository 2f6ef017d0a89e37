// Simulator: one Ascend chip on the CPU, for the host side. GM is host memory that the caller
// registers; Launch runs a kernel function once per core, as plain C++, checks it and times it.
// One thread uses a Simulator at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "lorica/base/status.h"
#include "lorica/kernels/ascend/sim/report.h"
#include "lorica/kernels/ascend/sim/soc_table.h"
#include "lorica/kernels/ascend/sim/timeline.h"

namespace lorica::ascend {

enum class KernelType : uint8_t {
  kAicOnly,    // cube cores, no cross-core flags
  kAivOnly,    // vector cores, no cross-core flags; on 2002 the coupled core
  kMixAic1_0,  // cube cores with cross-core flags
  kMixAic1_1,
  kMixAic1_2,  // a cube core and its two vector cores a block
  kMixAiv1_0,  // vector cores with cross-core flags
};

struct LaunchOptions {
  KernelType type = KernelType::kAicOnly;
  int32_t blocks = 1;
  // The vendor compiler's automatic barriers on vector cores (V-V, and S with V, MTE2, MTE3).
  bool auto_sync = false;
  bool timeline = true;
  bool trace = false;               // keep every instruction's interval in LaunchResult::timeline
  double memory_latency_scale = 1;  // for sensitivity; so are the next ones
  double issue_cost_scale = 1;
  double mte2_rate_scale = 1;
  double l2_latency_scale = 1;
  double cross_flag_scale = 1;
  int64_t mmad_least_row_blocks = 0;  // 0: the table's; 1: the documented step rate at 16 rows
};

struct LaunchResult {
  SimReport report;
  Timeline timeline;
};

// The state of a GM buffer before a launch.
struct GmOptions {
  bool initialised = true;  // false: reading a byte that no kernel wrote is tracked
  bool in_l2 = false;       // warm: served by L2 from the first touch
};

class Simulator {
 public:
  // Refused with the list of known names when `soc` is not in the table.
  static Result<std::unique_ptr<Simulator>> Open(std::string_view soc);
  ~Simulator();

  const SocSpec& soc() const;

  // [data, data + bytes) is GM. Registered ranges are disjoint; the caller keeps the memory until
  // RemoveGm or the end. Every address that a kernel touches must lie in one.
  void AddGm(std::string name, void* data, int64_t bytes, GmOptions options = {});
  void RemoveGm(const void* data);
  void RemoveAllGm();

  // Runs `kernel` on every core of the launch. Never aborts for what a kernel does.
  LaunchResult Launch(const LaunchOptions& options, const std::function<void()>& kernel);

 private:
  struct Impl;
  explicit Simulator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lorica::ascend
