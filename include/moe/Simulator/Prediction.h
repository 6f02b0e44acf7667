//===- Prediction.h - predicted time of a plan on a cluster -----*- C++ -*-===//
#ifndef MOE_SIMULATOR_PREDICTION_H
#define MOE_SIMULATOR_PREDICTION_H

#include "mlir/IR/BuiltinOps.h"

#include "moe/Simulator/Report.h"
#include "moe/Simulator/Routing.h"

namespace mlir::moe {

/// Routing for plans that divide the tokens of one model differently. The trace has the model's experts.
struct RoutingSource {
  std::optional<RoutingTrace> trace; ///< recorded trace; absent for synthetic routing
  SyntheticRouting synthetic;
};

/// Facts about the plan and the cluster for all outputs of a simulation. The caller adds form and routing.
SimHeader makeSimHeader(ModuleOp plan, llvm::StringRef planName, const ClusterProfile &cluster);

/// Work of a step as the plan states it; zeros if it does not.
StepWork getStepWork(ModuleOp plan);

/// Predicts the time of a step of a module at the plan stage on `cluster`, in closed form, with even routing.
struct Prediction {
  SimHeader header;
  SimResult result;
  SimReport report;
};
llvm::Expected<Prediction> predict(ModuleOp plan, llvm::StringRef planName, const ClusterProfile &cluster);
/// The same with a model of the plan's ranks and a trace that already exist.
llvm::Expected<Prediction> predict(ModuleOp plan, llvm::StringRef planName, const CostModel &model,
                                   const RoutingTrace *routing = nullptr);
/// One iteration for the plan's ranks and layers, from the first iteration of the trace. If the plan has more ranks,
/// each rank of the trace stands for several neighbouring ones; if it has fewer, each takes the first of several.
/// Counts are scaled to the tokens of the plan's ranks. A layer that the trace does not have is like its last one. The
/// result is empty if `routing` is null, or if the plan routes nothing. Fails if the layers differ, or if the trace has
/// other experts.
llvm::Expected<RoutingTrace> makeTrace(ModuleOp plan, const RoutingSource *routing);
/// Options for the first iteration of `routing`. Routing is even if it is null or empty.
SimOptions getSimOptions(const RoutingTrace *routing);

} // namespace mlir::moe

#endif // MOE_SIMULATOR_PREDICTION_H
