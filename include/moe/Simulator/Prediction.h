//===- Prediction.h - how long a plan takes on a cluster --------*- C++ -*-===//
#ifndef MOE_SIMULATOR_PREDICTION_H
#define MOE_SIMULATOR_PREDICTION_H

#include "mlir/IR/BuiltinOps.h"

#include "moe/Simulator/Report.h"
#include "moe/Simulator/RoutingSource.h"

namespace mlir::moe {

/// What the outputs of a simulation say of the plan and the cluster; form and routing are the caller's.
SimHeader makeSimHeader(ModuleOp plan, llvm::StringRef planName, const ClusterProfile &cluster);

/// What the plan says of a step's work; zeros where it says nothing.
StepWork getStepWork(ModuleOp plan);

/// How long a step of a module at the plan stage takes on `cluster`, in closed form. `routing` may be null, for an
/// even one.
struct Prediction {
  SimHeader header;
  SimResult result;
  SimReport report;
};
llvm::Expected<Prediction> predict(ModuleOp plan, llvm::StringRef planName, const ClusterProfile &cluster,
                                   const RoutingSource *routing = nullptr);
/// The same with what was made before: a model of the plan's ranks, and a trace.
llvm::Expected<Prediction> predict(ModuleOp plan, llvm::StringRef planName, const CostModel &model,
                                   const RoutingTrace *routing = nullptr);
/// Of the plan's ranks and layers; an empty one without `routing`.
llvm::Expected<RoutingTrace> makeTrace(ModuleOp plan, const RoutingSource *routing);
/// Of the first iteration of `routing`; null, or an empty one, for even routing.
SimOptions getSimOptions(const RoutingTrace *routing);

} // namespace mlir::moe

#endif // MOE_SIMULATOR_PREDICTION_H
