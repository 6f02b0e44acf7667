//===- ScheduleOptions.h - options of schedules' passes ---------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_TRANSFORMS_SCHEDULEOPTIONS_H
#define MOE_DIALECT_MOE_TRANSFORMS_SCHEDULEOPTIONS_H

#include <cstdint>

namespace mlir::moe {

/// Options of moe-pause-mp.
enum class PauseMpSchedule { S1, S2, Chosen };

/// Options of moe-smart-schedule.
enum class SmartOrder { Ring, Topology };
/// Default number of ranks in a group of `ranks` ranks that exchange: the ranks of a node, or a fourth of all inside
/// one node.
int64_t getSmartGroupSize(int64_t ranks, int64_t nodeRanks);

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_TRANSFORMS_SCHEDULEOPTIONS_H
