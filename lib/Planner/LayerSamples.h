//===- LayerSamples.h - the MoE layers of a model by themselves -*- C++ -*-===//
#ifndef MOE_LIB_PLANNER_LAYERSAMPLES_H
#define MOE_LIB_PLANNER_LAYERSAMPLES_H

#include "moe/Planner/Planner.h"

namespace mlir::moe {

/// A graph of one layer, and how many of the model are as this one.
struct LayerSample {
  OwningOpRef<ModuleOp> graph;
  int64_t count = 1;
};

/// Whether a model graph is one layer and nothing else.
bool isOneLayer(ModuleOp graph);

/// The layers of `graph`, of equal ones one, in their order. A layer's operands become arguments.
SmallVector<LayerSample> sampleLayers(ModuleOp graph);

/// The graph of one layer with `factor` times as many tokens. Fails where these are no whole number.
FailureOr<OwningOpRef<ModuleOp>> scaleTokens(ModuleOp graph, double factor);

/// Gradients are summed up once in a step, whatever its micro-batches: in the plan of one micro-batch each sum of a
/// parameter's gradient counts as one of so many.
void divideGradientSums(ModuleOp plan, int64_t microBatches);

/// `options` for a layer alone, on the ranks of one stage of a pipeline: its forward and backward for one micro-batch.
CompileOptions getSampleOptions(const CompileOptions &options);

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_LAYERSAMPLES_H
