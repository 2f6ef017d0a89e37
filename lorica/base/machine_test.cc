#include <gtest/gtest.h>

#include "lorica/base/machine_context.h"

namespace lorica {
namespace {

TEST(Machine, FactsArePlausible) {
  const MachineContext context(2);
  EXPECT_GE(context.facts.cores, 1);
  EXPECT_GT(context.facts.memory_bytes, int64_t{1} << 28);
  EXPECT_LE(context.facts.available_memory_bytes, context.facts.memory_bytes);
  EXPECT_NE(Describe(context.facts).find("core"), std::string::npos);
  EXPECT_EQ(context.pool.threads(), 2);
}

TEST(Trace, CountsCallsAndTimeByZone) {
  Trace trace;
  { const TraceScope scope(&trace, Zone::kPlan); }
  { const TraceScope scope(nullptr, Zone::kPlan); }
  EXPECT_EQ(trace.counter(Zone::kPlan).calls, 1);
  EXPECT_GE(trace.counter(Zone::kPlan).nanoseconds, 0);
  EXPECT_EQ(ZoneName(Zone::kStep), "step");
  EXPECT_EQ(ZoneName(Zone::kAttention), "attention");
  trace.Reset();
  EXPECT_EQ(trace.counter(Zone::kPlan).calls, 0);
}

}  // namespace
}  // namespace lorica
