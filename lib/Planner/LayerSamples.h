//===- LayerSamples.h - what a schedule changes of a model ------*- C++ -*-===//
#ifndef MOE_LIB_PLANNER_LAYERSAMPLES_H
#define MOE_LIB_PLANNER_LAYERSAMPLES_H

#include "Evaluator.h"

namespace mlir::moe {

/// Whether a model graph is one layer and nothing else.
bool isOneLayer(ModuleOp graph);

/// The part of a graph that a schedule changes: the graph itself if it is one layer, otherwise one of each kind of its
/// MoE layers. Their operands become arguments. They are on the ranks of one stage of a pipeline, and do one
/// micro-batch, forward and backward.
class LayerSamples {
public:
  /// With `tokens` times as many tokens as the graph has; isLegal() tells whether that is possible.
  LayerSamples(ModuleOp graph, const PlanOptions &options, double tokens = 1);

  bool isLegal() const { return legal; }
  /// Whether this is the whole model, so that its memory is the model's.
  bool isWhole() const { return isGraph; }
  /// Whether the plans that were simulated fit. It is not known whether a part of a model does.
  bool fits(const Candidate &candidate) const {
    int64_t limit = evaluator.getOptions().memoryLimit;
    return limit == 0 || candidate.estimate.bytes <= limit;
  }

  /// Compiles plans in the program's order, which stay until the next call, and sets verdict, reason, bound and bytes.
  void apply(const ParsedSchedule &schedule, Candidate &candidate);
  /// Simulates the plans of apply() in the candidate's order, or in the default order.
  void simulate(const ParsedSchedule &schedule, Candidate &candidate);
  /// The plans of apply() as text: two schedules may have the same.
  std::string getText() const;

private:
  /// A graph of one layer.
  struct Sample {
    OwningOpRef<ModuleOp> graph;
    double count; ///< number of such layers in a stage
    /// The plan of apply(), whose launches have no order yet.
    OwningOpRef<ModuleOp> unordered = nullptr;
  };
  void addSamples(ModuleOp graph, int64_t stages);
  /// Orders the launches of all samples. Whether that succeeds.
  bool orderAll(const ParsedSchedule &schedule, std::optional<OrderPolicy> order, Candidate &candidate);
  /// Bytes of the plans. If they are over the limit, `reason` describes the peak.
  void measureMemory(Candidate &candidate);
  llvm::Error addSteps(Candidate &candidate);

  Evaluator evaluator;
  int64_t microBatches; ///< micro-batches of the model's step
  bool isGraph, legal = true;
  SmallVector<Sample> samples;
  std::vector<Evaluator::Plan> plans; ///< plans of the samples
};

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_LAYERSAMPLES_H
