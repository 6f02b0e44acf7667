//===- LayerSamples.h - what a schedule changes of a model ------*- C++ -*-===//
#ifndef MOE_LIB_PLANNER_LAYERSAMPLES_H
#define MOE_LIB_PLANNER_LAYERSAMPLES_H

#include "Evaluator.h"

#include "moe/Compiler/Schedule.h"

namespace mlir::moe {

/// Whether a model graph is one layer and nothing else.
bool isOneLayer(ModuleOp graph);

/// All of a graph that a schedule changes: the graph itself where it is one layer, else its MoE layers by themselves,
/// of equal ones one. Their operands become arguments. They are on the ranks of one stage of a pipeline, and do one
/// micro-batch, forward and backward.
class LayerSamples {
public:
  /// `tokens` times as many as the graph has; isLegal() says whether these can be.
  LayerSamples(ModuleOp graph, const PlanOptions &options, double tokens = 1);

  bool isLegal() const { return legal; }
  /// Whether this is the whole model, so that its memory is the model's.
  bool isWhole() const { return isGraph; }

  /// Compiles `schedule` in the program's order: verdict, reason, bound and bytes of `candidate`. The plans stay until
  /// the next call.
  void apply(const ParsedSchedule &schedule, Candidate &candidate);
  /// Simulates what was applied, in the candidate's order or the one that it would be compiled in by itself.
  void simulate(const ParsedSchedule &schedule, Candidate &candidate);
  /// What was applied, as text: two schedules may come to the same.
  std::string getText() const;

private:
  /// A graph of one layer.
  struct Sample {
    OwningOpRef<ModuleOp> graph;
    double count; ///< of such layers in a stage
    /// What was applied, before its launches are in an order.
    OwningOpRef<ModuleOp> unordered = nullptr;
  };
  void addSamples(ModuleOp graph, int64_t stages);
  bool compileAll(const ParsedSchedule &schedule, Candidate &candidate);
  /// Of what is compiled.
  bool orderAll(const ParsedSchedule &schedule, std::optional<OrderPolicy> order, Candidate &candidate);
  /// The bytes of the plans; where that is over the limit `reason` says what holds the peak.
  void measureMemory(Candidate &candidate);
  llvm::Error addBound(Candidate &candidate);
  llvm::Error addSteps(Candidate &candidate);

  Evaluator evaluator;
  int64_t microBatches; ///< of the model's step
  bool isGraph, legal = true;
  SmallVector<Sample> samples;
  std::vector<Evaluator::Plan> plans; ///< of the samples
};

} // namespace mlir::moe

#endif // MOE_LIB_PLANNER_LAYERSAMPLES_H
