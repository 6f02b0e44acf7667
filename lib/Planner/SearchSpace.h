//===- SearchSpace.h - the schedules that 'auto' chooses from ---*- C++ -*-===//
#ifndef MOE_LIB_PLANNER_SEARCHSPACE_H
#define MOE_LIB_PLANNER_SEARCHSPACE_H

#include "moe/Pipeline/Schedule.h"

namespace mlir::moe {

/// Schedules that differ in their chunks and in what they keep for the backward alone. The first one has neither, and
/// any other one does its work too, in more pieces or twice: what the first one needs of a stream, all need.
struct ScheduleClass {
  /// Of the first: "s2+saa+smart".
  std::string name;
  ParsedSchedule first;
};

/// All classes of the joint space, one for each of getCombinations().
SmallVector<ScheduleClass> getScheduleClasses();

/// How many chunks are tried, from 1 up to at most `most`.
ArrayRef<int64_t> getChunkCounts(int64_t most = 16);
/// What MPipeMoE's strategies may be on the cluster: those that offload need a link to the host.
SmallVector<mpipemoe::Strategy> getStrategies(const ClusterProfile &cluster);

/// Rings for `schedule` in which fewer chunks' values are alive than by itself, the largest first.
SmallVector<int64_t> getSmallerRings(const ParsedSchedule &schedule);

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_SEARCHSPACE_H
