//===- LayerRates.h - what FasterMoE's passes know of a cluster -*- C++ -*-===//
#ifndef MOE_LIB_PIPELINE_LAYERRATES_H
#define MOE_LIB_PIPELINE_LAYERRATES_H

#include "moe/Pipeline/Pipeline.h"

#include "llvm/Support/Error.h"

namespace mlir::moe {

/// Rates at which a layer's work goes on a cluster, of one rank except where said.
struct LayerRates {
  double flopsPerSecond = 0;
  /// Of an exchange of experts' rows in closed form: bytes of a member's send buffer a second, and what it takes
  /// without bytes.
  double sendBytesPerSecond = 0, startSeconds = 0;
  /// To and from its node, and of all that connects a node to others; 0 where one node has all ranks that exchange.
  double localBytesPerSecond = 0, nodeBytesPerSecond = 0;
  /// Of one expert's weights to all that exchange.
  double broadcastBytesPerSecond = 0;
};

/// Of the first layer of `graph`, a model graph that has one, on options.cluster.
llvm::Expected<LayerRates> getLayerRates(ModuleOp graph, const PipelineOptions &options);

} // namespace mlir::moe

#endif // MOE_LIB_PIPELINE_LAYERRATES_H
