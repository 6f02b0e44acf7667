//===- Space.h - the schedules that 'auto' chooses from ---------*- C++ -*-===//
#ifndef MOE_LIB_COMPILER_SPACE_H
#define MOE_LIB_COMPILER_SPACE_H

#include "Schedule.h"

namespace mlir::moe {

/// Schedules that differ in their chunks and in what they keep for the backward alone. The first one has neither, and
/// any other one does its work too, in more pieces or twice: what the first one needs of a stream, all need.
struct ScheduleClass {
  /// Of the first: "s2+saa+smart".
  std::string name;
  ParsedSchedule first;
};

/// All classes of the joint space: what is done to whole layers (baseline, S1, S2, S2 with SAA, PPMoE), with and
/// without shadows and the smart schedule. Which of them can be, the passes say. The topology-aware gate is none of
/// them, since it changes what tokens choose.
SmallVector<ScheduleClass> getScheduleClasses();

/// How many chunks are tried, from 1 up.
ArrayRef<int64_t> getAutoChunkCounts();
/// What MPipeMoE's strategies may be on the cluster: those that offload need a link to the host.
SmallVector<mpipemoe::Strategy> getStrategies(const ClusterProfile &cluster);

/// Rings for `schedule` in which fewer chunks' values are alive than by itself, the largest first.
SmallVector<int64_t> getSmallerRings(const ParsedSchedule &schedule);

} // namespace mlir::moe

#endif // MOE_LIB_COMPILER_SPACE_H
