//===- SearchSpace.h - what the planner chooses from ------------*- C++ -*-===//
#ifndef MOE_PLANNER_SEARCHSPACE_H
#define MOE_PLANNER_SEARCHSPACE_H

#include <vector>

#include "moe/Compiler/Schedule.h"

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

/// Whether `schedule`, with `once` or `hier` in it, may come to something else than without, on nodes of so many
/// devices: rows of dropless layers go once, those of other layers by node, and several nodes have experts. Others
/// always may.
bool mayExchangeByNode(const ParsedSchedule &schedule, ParallelAttr parallel, int64_t devicesPerNode, bool isDropless);

/// How many chunks are tried, from 1 up to at most `most`.
ArrayRef<int64_t> getChunkCounts(int64_t most = 16);
/// Those of pipeline:auto.
ArrayRef<int64_t> getPipelineCounts();

/// MPipeMoE's strategies, which mpipe-auto chooses from.
ArrayRef<mpipemoe::Strategy> getMpipeStrategies();
/// Those and none, as far as the cluster allows: those that offload need a link to the host.
SmallVector<mpipemoe::Strategy> getStrategies(const ClusterProfile &cluster);

/// Rings for `schedule` in which fewer chunks' values are alive than by itself, the largest first.
SmallVector<int64_t> getSmallerRings(const ParsedSchedule &schedule);

/// Sizes of cp for sequences of `tokens`: 1, and powers of two that leave a rank parts of at least 4096 tokens.
SmallVector<int64_t> getContextSizes(int64_t tokens);

/// All sizes of groups for `world` ranks that ParallelAttr allows, in the order of pp, cp, mp, ep and esp, with at most
/// so many stages and experts, and with one of these sizes of cp; mp and esp are at most a node, or 8.
std::vector<ParallelAttr> getParallelSpace(MLIRContext *context, int64_t world, int64_t maxStages, int64_t maxExperts,
                                           int64_t devicesPerNode, ArrayRef<int64_t> contextSizes = {1});

} // namespace mlir::moe

#endif // MOE_PLANNER_SEARCHSPACE_H
