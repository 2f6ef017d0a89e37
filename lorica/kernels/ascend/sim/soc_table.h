// SocSpec: the figures of one chip that the model uses, and ConstantNote: where each comes from
// and how far it is to be believed. All constants of the model live in soc_table.cc.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lorica/base/status.h"

namespace lorica::ascend {

struct SocSpec {
  std::string_view name;
  int32_t arch = 2201;
  int32_t cube_cores = 0;
  int32_t vector_cores = 0;  // arch 2002: the cube core is one, these are the extra ones
  double mhz = 0;
  // Capacities in bytes.
  int64_t l1 = 0, ub = 0, l0a = 0, l0b = 0, l0c = 0, bt = 0;
  int64_t l2 = 0;
  bool has_bf16 = true;
  // Bytes a cycle, one core.
  double gm_to_l1 = 0, gm_to_ub = 0, ub_to_gm = 0, l1_to_l0a = 0, l1_to_l0b = 0;
  double l0c_to_l1 = 0, l0c_to_gm = 0, l1_to_gm = 0, l0c_to_ub = 0, ub_to_l1 = 0;
  // Bytes a cycle, the chip.
  double memory_rate = 0;
  double l2_rate = 0;
  // Cycles.
  double memory_latency = 0, l2_latency = 0, local_latency = 0;
  double mmad_head = 0, vector_head = 0, issue_cost = 0, scalar_cost = 0, flag_cost = 0;
  double cross_flag_cost = 0;  // from the last set of a group to its waits
  double vector_bytes = 256;   // a cycle
  // A fractal of B serves at least so many steps of the cube, used or not.
  int64_t mmad_least_row_blocks = 1;
};

struct ConstantNote {
  std::string_view field;
  std::string_view source;
  std::string_view doubt;
};

Result<SocSpec> FindSoc(std::string_view name);
std::vector<std::string_view> SocNames();
const std::vector<ConstantNote>& ConstantNotes();

}  // namespace lorica::ascend
