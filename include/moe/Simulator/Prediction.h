//===- Prediction.h - predicted time of a plan on a cluster -----*- C++ -*-===//
#ifndef MOE_SIMULATOR_PREDICTION_H
#define MOE_SIMULATOR_PREDICTION_H

#include "mlir/IR/BuiltinOps.h"

#include "moe/Simulator/Report.h"
#include "moe/Simulator/RoutingSource.h"

namespace mlir::moe {

/// Facts about the plan and the cluster for all outputs of a simulation. The caller adds form and routing.
SimHeader makeSimHeader(ModuleOp plan, llvm::StringRef planName, const ClusterProfile &cluster);

/// Work of a step as the plan states it; zeros if it does not.
StepWork getStepWork(ModuleOp plan);

/// Predicts the time of a step of a module at the plan stage on `cluster`, in closed form. Routing is even if `routing`
/// is null.
struct Prediction {
  SimHeader header;
  SimResult result;
  SimReport report;
};
llvm::Expected<Prediction> predict(ModuleOp plan, llvm::StringRef planName, const ClusterProfile &cluster,
                                   const RoutingSource *routing = nullptr);
/// The same with a model of the plan's ranks and a trace that already exist.
llvm::Expected<Prediction> predict(ModuleOp plan, llvm::StringRef planName, const CostModel &model,
                                   const RoutingTrace *routing = nullptr);
/// A trace for the plan's ranks and layers; empty if `routing` is null.
llvm::Expected<RoutingTrace> makeTrace(ModuleOp plan, const RoutingSource *routing);
/// Options for the first iteration of `routing`. Routing is even if it is null or empty.
SimOptions getSimOptions(const RoutingTrace *routing);

} // namespace mlir::moe

#endif // MOE_SIMULATOR_PREDICTION_H
