//===- SearchSpace.h - what the planner chooses from ------------*- C++ -*-===//
#ifndef MOE_PLANNER_SEARCHSPACE_H
#define MOE_PLANNER_SEARCHSPACE_H

#include <vector>

#include "moe/Compiler/Schedule.h"

namespace mlir::moe {

/// Whether `once` or `hier` in `schedule` may have an effect on nodes of so many devices: rows of dropless layers are
/// sent once, those of other layers by node, and several nodes have experts. True for schedules without them.
bool mayExchangeByNode(const ParsedSchedule &schedule, ParallelAttr parallel, int64_t devicesPerNode, bool isDropless);

/// Numbers of chunks that are tried, and those that chunks:auto tries.
inline constexpr int64_t kChunkCounts[] = {1, 2, 4, 8, 16}, kPipelineCounts[] = {1, 2, 4, 8};

/// MPipeMoE's strategies, which mpipe-auto chooses from.
inline constexpr mpipemoe::Strategy kMpipeStrategies[] = {mpipemoe::Strategy::S1, mpipemoe::Strategy::S2,
                                                          mpipemoe::Strategy::S3, mpipemoe::Strategy::S4};
/// The same and none, as far as the cluster allows: strategies that offload need a link to the host.
SmallVector<mpipemoe::Strategy> getStrategies(const ClusterProfile &cluster);

/// Sizes of cp for sequences of `tokens`: 1, and powers of two that leave a rank parts of at least 4096 tokens.
SmallVector<int64_t> getContextSizes(int64_t tokens);

/// All sizes of groups for `world` ranks that ParallelAttr allows, in the order of pp, cp, mp, ep and esp, with at most
/// so many stages and experts, and with one of these sizes of cp; mp and esp are at most a node, or 8.
std::vector<ParallelAttr> getParallelSpace(MLIRContext *context, int64_t world, int64_t maxStages, int64_t maxExperts,
                                           int64_t devicesPerNode, ArrayRef<int64_t> contextSizes = {1});

} // namespace mlir::moe

#endif // MOE_PLANNER_SEARCHSPACE_H
