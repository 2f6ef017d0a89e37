#include "lorica/kernels/ascend/sim/soc_table.h"

namespace lorica::ascend {
namespace {

constexpr int64_t kKiB = 1024;

// Arch 2201. `cores` scales what the chip shares.
SocSpec Arch2201(std::string_view name, int32_t cores, double mhz) {
  SocSpec soc;
  soc.name = name;
  soc.arch = 2201;
  soc.cube_cores = cores;
  soc.vector_cores = 2 * cores;
  soc.mhz = mhz;
  soc.l1 = 512 * kKiB - 256;
  soc.ub = 192 * kKiB - 256;
  soc.l0a = 64 * kKiB;
  soc.l0b = 64 * kKiB;
  soc.l0c = 128 * kKiB;
  soc.bt = 1 * kKiB;
  soc.l2 = 192 * kKiB * kKiB;
  soc.gm_to_l1 = 78;
  soc.gm_to_ub = 59;
  soc.ub_to_gm = 109;
  soc.l1_to_l0a = 256;
  soc.l1_to_l0b = 128;
  soc.l0c_to_l1 = 74;
  soc.l0c_to_gm = 41;
  soc.l1_to_gm = 19;
  soc.memory_rate = 32.0 * cores;
  soc.l2_rate = 110.0 * cores;
  soc.memory_latency = 600;
  soc.l2_latency = 250;
  soc.local_latency = 20;
  soc.mmad_head = 6;
  soc.vector_head = 14;
  soc.mmad_least_row_blocks = 2;
  soc.issue_cost = 4;
  soc.scalar_cost = 8;
  soc.flag_cost = 2;
  soc.cross_flag_cost = 100;
  return soc;
}

SocSpec Arch2002(std::string_view name, int32_t cores, double mhz) {
  SocSpec soc = Arch2201(name, cores, mhz);
  soc.arch = 2002;
  soc.vector_cores = 7;
  soc.l1 = 1024 * kKiB;
  soc.ub = 256 * kKiB - 8 * kKiB;  // nd2nz keeps 8 KiB
  soc.l0c = 256 * kKiB;
  soc.bt = 0;
  soc.l2 = 16 * kKiB * kKiB;
  soc.has_bf16 = false;
  soc.gm_to_l1 = 114;
  soc.gm_to_ub = 114;
  soc.ub_to_gm = 114;
  soc.l0c_to_ub = 128;
  soc.ub_to_l1 = 128;
  soc.l0c_to_l1 = 0;
  soc.l0c_to_gm = 0;
  soc.l1_to_gm = 0;
  soc.memory_rate = 17.0 * cores;
  soc.l2_rate = 114.0 * cores;
  return soc;
}

const std::vector<SocSpec>& Table() {
  static const std::vector<SocSpec> table = {
      Arch2201("910B1", 24, 1850),
      Arch2201("910B3", 20, 1800),
      Arch2002("310P3", 8, 1060),
  };
  return table;
}

}  // namespace

Result<SocSpec> FindSoc(std::string_view name) {
  std::string known;
  for (const SocSpec& soc : Table()) {
    if (soc.name == name) return soc;
    known += (known.empty() ? "" : ", ") + std::string(soc.name);
  }
  return NotFound("SoC \"" + std::string(name) + "\" is not in the table; known are " + known);
}

std::vector<std::string_view> SocNames() {
  std::vector<std::string_view> names;
  for (const SocSpec& soc : Table()) names.push_back(soc.name);
  return names;
}

const std::vector<ConstantNote>& ConstantNotes() {
  static const std::vector<ConstantNote> notes = {
      {"cores, mhz, capacities", "the toolkit's platform files", "none known"},
      {"ub, l1 less 256 B", "toolkit documents (reserved at the end)",
       "l1 loses them in MIX kernels only; taken always"},
      {"310P3 ub less 8 KiB", "toolkit documents (nd2nz workspace)", "taken always"},
      {"gm_to_l1, gm_to_ub, ub_to_gm", "a public tile cost model, GiB/s a core at 1.85 GHz",
       "fitted by its authors; the platform files give 32 from memory and 110 from L2"},
      {"l1_to_l0a, l1_to_l0b", "toolkit documents, and the cost model agrees",
       "the platform files say twice as much; two profiles show 15 and 18 % more time than this"},
      {"l0c_to_l1", "the cost model", "the documents say 128"},
      {"l0c_to_gm, l1_to_gm", "the cost model", "one source"},
      {"memory_rate", "platform files: 32 (2201) or 17 (2002) bytes a cycle and core",
       "marketing says a third more"},
      {"l2_rate", "platform files: 110 or 114 bytes a cycle and core", "no contention known"},
      {"memory_latency, l2_latency", "a guess from like chips", "large: halve and double it"},
      {"issue_cost, scalar_cost, flag_cost", "a guess", "large: halve and double it"},
      {"cross_flag_cost", "a guess, of flags that travel beside the L2 path",
       "large: no public figure was found; halve and double it"},
      {"mmad_head", "the cost model", "small: a published profile is met within 1 %"},
      {"mmad_least_row_blocks",
       "derived from one public profile of a 4-row product on 24 cores (124160 x 5120, 108 us of "
       "cube), met within 6 %; 1 would miss it by 47 %",
       "one profile, chip and clock not stated; a product of 32 rows and more is not touched"},
      {"vector_head, local_latency", "a guess", "halve and double it"},
      {"310P3 l0c_to_ub, ub_to_l1", "a guess", "no cycle claim is made for it"},
      {"not modelled", "toolkit documents",
       "1.4 times for GM addresses off 512 B; 10 to 20 % when cores read one address at once; "
       "UB bank conflicts; instruction cache"},
      {"short pieces", "toolkit documents: GM moves in 128 to 512 B", "rounded up to 128 here"},
      {"lines of L2, 512 B, filled whole from memory",
       "toolkit documents: 512 B is where GM is fastest; the vendor's data_copy example "
       "(asc-devkit), "
       "copies of 64 rows of 128 and of 512 B, 24 cores: MTE2 met within 2 %",
       "one example; by sectors of 128 B it would miss the short rows by 25 %"},
  };
  return notes;
}

}  // namespace lorica::ascend
