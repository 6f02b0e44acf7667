//===- RunAnchor.h - a profile anchored in a user's jobs --------*- C++ -*-===//
#ifndef MOE_FRAMEWORKS_RUNANCHOR_H
#define MOE_FRAMEWORKS_RUNANCHOR_H

#include "moe/Cost/Anchor.h"
#include "moe/Frameworks/MeasuredRuns.h"
#include "moe/Simulator/Prediction.h"

namespace mlir::moe {

/// Predicts the step of each run on the threads of `context`, and fits an anchor to their steps on `cluster`, which is
/// without the times of `framework`. Steps come from samples; where these do not tell the step, from whole plans.
/// Experts get tokens as `routing` says, evenly if it is null. Warnings of what differs from a job go to `remarks`. The
/// text of an error is a complete diagnostic.
llvm::Expected<AnchorFit> fitAnchorToRuns(MLIRContext &context, ArrayRef<MeasuredRun> runs,
                                          const ClusterProfile &cluster, const FrameworkProfile &framework,
                                          const RoutingSource *routing, std::vector<std::string> &remarks);

/// Prints the runs before and after the fit, and its factors.
void printAnchor(ArrayRef<MeasuredRun> runs, const AnchorFit &fit, llvm::raw_ostream &os);

} // namespace mlir::moe

#endif // MOE_FRAMEWORKS_RUNANCHOR_H
