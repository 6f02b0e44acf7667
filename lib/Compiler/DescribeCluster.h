//===- DescribeCluster.h - what passes know of a cluster --------*- C++ -*-===//
#ifndef MOE_LIB_COMPILER_DESCRIBECLUSTER_H
#define MOE_LIB_COMPILER_DESCRIBECLUSTER_H

#include "moe/Compiler/Compiler.h"

namespace mlir::moe {

/// The rates of options.cluster that the passes of `schedule` need, for `graph`, a model graph. Fails with an error
/// if there is no cluster and one is needed, or if it does not have them.
FailureOr<ClusterAttr> describeCluster(ModuleOp graph, const ParsedSchedule &schedule, const CompileOptions &options);

} // namespace mlir::moe

#endif // MOE_LIB_COMPILER_DESCRIBECLUSTER_H
