//===- ScheduleOptions.h - options of schedules' passes ---------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_TRANSFORMS_SCHEDULEOPTIONS_H
#define MOE_DIALECT_MOE_TRANSFORMS_SCHEDULEOPTIONS_H

#include <cstdint>

namespace mlir::moe {

/// Options of moe-pause-mp.
enum class PauseMpSchedule { S1, S2, Chosen };

/// Options of moe-smart-schedule.
enum class SmartOrder { Ring, Topology };
/// The ranks of a group where none are said: of `ranks` that exchange those of a node, or inside a node a fourth.
int64_t getSmartGroupSize(int64_t ranks, int64_t nodeRanks);

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_TRANSFORMS_SCHEDULEOPTIONS_H
